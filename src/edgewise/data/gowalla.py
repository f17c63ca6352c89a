"""Check-ins of Gowalla: 29,858 people, 40,981 places, and the split that NGCF and LightGCN use.

Paper: He et al., LightGCN, 2020 (the split); Cho et al., Friendship and mobility, 2011 (the data).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.data.edge_list import read_interactions
from edgewise.data.edge_splits import once
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
    """Any two files with a line ``user item item ...`` for each user, or of pairs ``user,item``.

    See :func:`edgewise.data.edge_list.read_interactions`.

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


def chosen_of(
    train: Path, test: Path, *, header: bool | None = None, names: bool = False
) -> Chosen:
    """The interactions of two files, each of them once."""
    read = read_interactions(train, test, header=header, names=names)
    known, tested = map(once, read.pairs)
    return Chosen(known, tested, read.user_ids, read.item_ids, (train, test))
