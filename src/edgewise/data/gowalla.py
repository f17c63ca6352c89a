"""Check-ins of Gowalla: 29,858 people, 40,981 places, and the split that NGCF and LightGCN use.

Paper: He et al., LightGCN, 2020 (the split); Cho et al., Friendship and mobility, 2011 (the data).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.edge_list import read_interactions
from edgewise.data.files import find_files
from edgewise.data.interactions import Chosen, Interactions

ADDRESS = "https://raw.githubusercontent.com/gusye1234/LightGCN-PyTorch/master/data/gowalla"
FILES = ["train.txt", "test.txt"]


@dataclass(frozen=True)
class Gowalla(Interactions):
    """The given split; what is validated on is taken from its training part."""

    def read(self) -> Chosen:
        raw = find_files("gowalla", {name: f"{ADDRESS}/{name}" for name in FILES})
        return chosen_of(raw / FILES[0], raw / FILES[1])


@dataclass(frozen=True)
class InteractionFiles(Interactions):
    """Any two files with a line ``user item item ...`` for each user (LightGCN's format).

    Attributes:
        train_path: interactions to train and validate on.
        test_path: interactions to test on, none of them in ``train_path``.

    """

    train_path: str = "train.txt"
    test_path: str = "test.txt"

    def read(self) -> Chosen:
        return chosen_of(Path(self.train_path), Path(self.test_path))


def chosen_of(train: Path, test: Path) -> Chosen:
    """The interactions of two files."""
    parts = read_interactions(train), read_interactions(test)
    users, items = (max(int(part[row].max()) for part in parts) + 1 for row in (0, 1))
    return Chosen(*parts, users, items)
