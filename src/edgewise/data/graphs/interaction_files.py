"""Recommendation from two files of interactions of users with items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.graphs.interactions import Chosen, Interactions, chosen_of


@dataclass(frozen=True)
class InteractionFiles(Interactions):
    """Any two files with a line ``user item item ...`` for each user, or of pairs ``user,item``.

    See :func:`edgewise.data.graphs.edge_files.read_interactions`.

    Attributes:
        train_path: interactions to train and validate on.
        test_path: interactions to test on, none of them in ``train_path``.
        header: whether the first lines name the two columns; ``None`` recognises it.
        names: ids are names, even where they look like numbers.

    """

    train_path: str = "train.txt"
    test_path: str = "test.txt"
    header: bool | None = None
    names: bool = False

    def read(self) -> Chosen:
        paths = Path(self.train_path), Path(self.test_path)
        return chosen_of(*paths, header=self.header, names=self.names)
