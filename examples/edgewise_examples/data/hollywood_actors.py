"""Data set for predicting links between films and their actors."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from edgewise.app.files.files import find_files
from edgewise.app.files.reading import read_lines
from edgewise.app.kinds.links.data import Links, Pairs
from edgewise.app.train.edge_splits import distinct

FILE = "actor.dat.gz"
ADDRESS = f"https://github.com/AllenDowney/ThinkComplexity2/raw/master/data/{FILE}"


@dataclass(frozen=True)
class HollywoodActors(Links):
    """Bipartite graph of 127,823 films (the first nodes) and 383,640 actors, for link prediction.

    This is a large graph without node features, for measuring speed and sampling.

    Paper: Barabási and Albert, Emergence of scaling in random networks, 1999.
    """

    batch_size: int = 131072

    def read(self) -> Pairs:
        path = find_files("hollywood_actors", {FILE: ADDRESS}) / FILE
        casts = [list(map(int, line.split())) for line in read_lines(path)]
        sizes = torch.tensor([len(cast) for cast in casts])
        film = torch.arange(len(casts)).repeat_interleave(sizes)
        members = torch.tensor([actor for cast in casts for actor in cast])
        names, actor = members.unique(return_inverse=True)
        films = len(casts)
        pairs = distinct(torch.stack([film, films + actor]))  # Some casts list an actor twice.
        ids = {f"film {line}": line for line in range(films)}
        ids |= {f"actor {name}": films + number for number, name in enumerate(names.tolist())}
        return Pairs(pairs, range(films), range(films, len(ids)), ids, path)
