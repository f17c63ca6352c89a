"""Graphs without features to predict links in: an edge list, Facebook's circles, film casts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from edgewise.data.edge_list import Edges, read_edges, read_memberships
from edgewise.data.edge_splits import distinct, undirected
from edgewise.data.files import find_files
from edgewise.data.links import Links, Pairs
from edgewise.errors import ArgumentError

FACEBOOK = "https://snap.stanford.edu/data/facebook_combined.txt.gz"
ACTORS = "https://github.com/AllenDowney/ThinkComplexity2/raw/master/data/actor.dat.gz"


@dataclass(frozen=True)
class EdgeList(Links):
    """The undirected graph of any edge list; see :func:`edgewise.data.edge_list.read_edges`.

    Attributes:
        path: the file.
        header: whether its first line names the columns; ``None`` recognises it.
        names: ids are names, even where they look like numbers.

    """

    path: str = ""
    header: bool | None = None
    names: bool = False

    def read(self) -> Pairs:
        if not self.path:
            raise ArgumentError(
                "data.path", expected="a file", got="''", remedy="name a text file of edges"
            )
        found = read_edges(self.path, header=self.header, names=self.names)
        return _one_kind(found, Path(self.path))


@dataclass(frozen=True)
class EgoFacebook(Links):
    """Who is whose friend in ten circles of Facebook: 4,039 people and 88,234 friendships.

    Paper: McAuley and Leskovec, Learning to discover social circles in ego networks, 2012.
    """

    def read(self) -> Pairs:
        path = _raw("ego_facebook", FACEBOOK)
        return _one_kind(read_edges(path), path)


@dataclass(frozen=True)
class HollywoodActors(Links):
    """Which actors are in which film: 127,823 films (the first nodes) and 383,640 actors.

    Large, and without features or labels: for speed, sampling and links between two kinds of node.

    Paper: Barabási and Albert, Emergence of scaling in random networks, 1999.
    """

    batch_size: int = 131072

    def read(self) -> Pairs:
        path = _raw("hollywood_actors", ACTORS)
        (film, actor), actors = read_memberships(path)
        films = int(film.max()) + 1
        pairs = distinct(torch.stack([film, films + actor]))  # a few casts name someone twice
        ids = {f"film {line}": line for line in range(films)}
        ids |= {f"actor {name}": films + number for name, number in actors.items()}
        return Pairs(pairs, range(films), range(films, len(ids)), ids, path)


def _one_kind(found: Edges, path: Path) -> Pairs:
    nodes = range(len(found.ids))
    return Pairs(undirected(found.pairs), nodes, nodes, found.ids, path)


def _raw(data: str, address: str) -> Path:
    name = address.rsplit("/", 1)[1]
    return find_files(data, {name: address}) / name
