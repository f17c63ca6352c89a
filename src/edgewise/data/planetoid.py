"""Citation networks Cora, CiteSeer and PubMed: papers, who cites whom, and their topic.

Paper: Yang et al., Revisiting semi-supervised learning with graph embeddings, 2016 (the public
split: 20 labels a class to train on, 500 papers to validate and 1000 to test).
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from torch import Tensor

from edgewise.data.batch import Batch
from edgewise.data.checks import check_features, check_labels, check_nodes, check_splits
from edgewise.data.files import find_raw
from edgewise.data.splits import Data, Split, Splits
from edgewise.errors import ArgumentError, MissingExtraError, unknown_name
from edgewise.graphs import Graph, from_pyg

if TYPE_CHECKING:
    from torch_geometric.data import Data as PygData

Name = Literal["Cora", "CiteSeer", "PubMed"]
NAMES: tuple[Name, ...] = get_args(Name)
UNLABELLED = -100  # what PyTorch's cross-entropy ignores
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


@dataclass(frozen=True)
class Planetoid(Data):
    """One graph of papers; a batch is all of it, and the papers of a split count.

    Attributes:
        name: which network.
        normalize: divide the word counts of each paper by their sum.
        sparse: keep only the words that a paper has (``torch.sparse_csr``), about 1 % of them.
        unlabelled: training sees the output at every paper, with the target -100 where the split
            gives no label: for losses that need none, such as agreement of several views.

    """

    name: Name = "Cora"
    normalize: bool = True
    sparse: bool = True
    unlabelled: bool = False

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise unknown_name("data.name", self.name, NAMES)

    @property
    def files(self) -> list[str]:
        """Names of the raw files."""
        return [f"ind.{self.name.lower()}.{part}" for part in PARTS]

    def load(self) -> Splits:
        try:
            with expected_warnings():
                from torch_geometric.data import download_url
                from torch_geometric.datasets import Planetoid as Source
        except ImportError as error:
            purpose = f"the data set {self.name}"
            raise MissingExtraError("torch_geometric", "graphs", purpose) from error

        def download(folder: Path) -> None:
            for name in self.files:
                download_url(f"{Source.url}/{name}", str(folder), log=False)

        found = _read(find_raw(self.name, self.files, download), self.name)
        x, y = found.x, found.y
        check_nodes(x, y, found.edge_index)
        check_features(x)
        classes = int(y.max()) + 1
        check_labels(y, classes)
        masks = {"train": found.train_mask, "val": found.val_mask, "test": found.test_mask}
        index = {name: mask.nonzero().flatten() for name, mask in masks.items()}
        check_splits(**index)
        if self.normalize:
            x = x / x.sum(-1, keepdim=True).clamp(min=1)
        if self.sparse:
            x = _csr(x)
        graph = from_pyg(found)
        parts = {name: _part(x, graph, y[i], i) for name, i in index.items()}
        if self.unlabelled:
            known = y.new_full(y.shape, UNLABELLED).index_copy_(
                0, index["train"], y[index["train"]]
            )
            parts["train"] = _part(x, graph, known, None)
        return Splits({"in_width": x.shape[1], "out_width": classes}, **parts, batch_size=1)


@contextmanager
def expected_warnings() -> Iterator[None]:
    """Without the two warnings that nobody here can act on."""
    with warnings.catch_warnings():
        # PyG 2.8 compiles some of its classes with a function that PyTorch is giving up.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        # The files are pickles of 2016, which name SciPy's modules of that time.
        warnings.filterwarnings("ignore", "Please import `cs", DeprecationWarning)
        yield


def _read(raw: Path, name: str) -> PygData:
    """PyG's own reader, which needs no other folder than ``raw`` and writes nothing."""
    from torch_geometric.io import read_planetoid_data

    try:
        with expected_warnings():
            data: Any = read_planetoid_data(str(raw), name.lower())
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError) as error:
        raise ArgumentError(
            "data.name",
            expected=f"the files of {name} in {raw}",
            got=f"a file that cannot be read ({error})",
            remedy="copy or download them again",
        ) from error
    return data


def _csr(x: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
        return x.to_sparse_csr()


def _part(x: Tensor, graph: Graph, target: Tensor, select: Tensor | None) -> Split:
    whole = Batch((x, graph), target, select)
    return Split(1, lambda _index: whole)
