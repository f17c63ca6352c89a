"""Citation networks Cora, CiteSeer and PubMed for node classification.

Paper: Yang et al., Revisiting semi-supervised learning with graph embeddings, 2016 (the public
split: 20 training labels per class, 500 validation papers and 1000 test papers).
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.checksums import SHA256
from edgewise.app.files.files import find_files, read_verified
from edgewise.app.kinds.nodes.data import (
    NodeData,
    NodeGraph,
    csr,
    graph_record,
)
from edgewise.app.train.splits import Splits

Name = Literal["Cora", "CiteSeer", "PubMed"]
NAMES: tuple[Name, ...] = get_args(Name)
CLASSES = {
    "Cora": [
        "Theory",
        "Reinforcement_Learning",
        "Genetic_Algorithms",
        "Neural_Networks",
        "Probabilistic_Methods",
        "Case_Based",
        "Rule_Learning",
    ],
    "CiteSeer": ["AI", "ML", "IR", "DB", "Agents", "HCI"],
}
"""Topic of each class number. The files do not contain the topics; they follow from the number of
papers of each topic in the original data.
"""
COMMIT = "af6abf468a772cc055bec88c52e4d6f51b7c37e3"
ADDRESS = f"https://github.com/kimiyoung/planetoid/raw/{COMMIT}/data"


@dataclass(frozen=True)
class Planetoid(NodeData):
    """Citation network; a batch is the whole graph, with a loss over the papers of one split.

    Attributes:
        name: ``"Cora"``, ``"CiteSeer"`` or ``"PubMed"``.
        normalize: whether to divide the word counts of each paper by their sum.
        sparse: whether to store the features as ``torch.sparse_csr``; about 1 % are not zero.

    Example:
        >>> from edgewise.app.kinds.nodes import Planetoid
        >>> Planetoid("Cora").load().model_arguments  # doctest: +SKIP
        {'in_width': 1433, 'out_width': 7}
    """

    folders = NAMES
    section = "Citation networks"

    name: Name = "Cora"
    normalize: bool = True
    sparse: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("data.name", self.name, NAMES)

    @property
    def files(self) -> list[str]:
        """Names of the raw files, each with a known checksum."""
        return list(SHA256[self.name])

    def load(self) -> Splits:
        x, y, edge_index, index = read_papers(self.name)
        if self.normalize:
            x = x / x.sum(-1, keepdim=True).clamp(min=1)
        if self.sparse:
            x = csr(x)
        node_graph = NodeGraph(list(map(str, range(len(x)))), x, edge_index)
        graph, num_classes = node_graph.graph, int(y.max()) + 1
        splits = self.node_splits(x, graph, y, index)
        classes = CLASSES.get(self.name) or [str(c) for c in range(num_classes)]
        return Splits(
            {"in_width": x.shape[1], "out_width": num_classes},
            splits["train"],
            splits["val"],
            splits["test"],
            batch_size=1,
            preprocessing=graph_record(node_graph, classes),
        )

    def read_new(self, path: Path, preprocessing: dict[str, Any]) -> NodeGraph:  # noqa: ARG002
        raise ArgumentError(
            "input",
            expected=f"indices of papers of {self.name}",
            got=str(path),
            remedy="use `edgewise train nodes` on your own files to predict on new graphs",
        )


class Papers(NamedTuple):
    """Word counts ``[N, F]``, topics ``[N]``, citations ``[2, E]`` and node indices per split."""

    x: Tensor
    y: Tensor
    edge_index: Tensor
    splits: dict[str, Tensor]


def read_papers(name: Name) -> Papers:
    """Return a network with its public split, as PyTorch Geometric reads it. The digests of the
    files, which are pickles, are computed of the bytes that are then unpickled, and nothing but
    arrays of numbers is unpickled.
    """
    raw = find_files(name, {file: f"{ADDRESS}/{file}" for file in SHA256[name]})
    content = {
        file.removeprefix(f"ind.{name.lower()}."): read_verified(name, file, raw)
        for file in SHA256[name]
    }
    order = torch.tensor([int(line) for line in content.pop("test.index").split()])
    values = {  # Python 2 has written them.
        key: ArrayUnpickler(io.BytesIO(pickled), encoding="latin1").load()
        for key, pickled in content.items()
    }
    features, labels = (
        torch.cat([_dense(values[f"all{key}"]), _with_isolated(_dense(values[f"t{key}"]), order)])
        for key in ("x", "y")
    )
    # The test papers are stored in the order of their numbers, not in that of `order`.
    numbers = order.sort().values
    features[order], labels[order] = features[numbers], labels[numbers]
    pairs = {(cited, paper) for paper, row in values["graph"].items() for cited in row}
    edge_index = torch.tensor(sorted(pair for pair in pairs if pair[0] != pair[1])).T.flip(0)
    num_train = len(_dense(values["y"]))
    splits = {
        "train": torch.arange(num_train),
        "val": torch.arange(num_train, num_train + 500),
        "test": numbers,
    }
    return Papers(features, labels.max(1).indices, edge_index.contiguous(), splits)


def _with_isolated(rows: Tensor, order: Tensor) -> Tensor:
    """Return the rows of all test papers; isolated papers of CiteSeer have no row: zeros."""
    first = int(order.min())
    complete = rows.new_zeros(int(order.max()) - first + 1, rows.shape[1])
    complete[order.sort().values - first] = rows
    return complete


class ArrayUnpickler(pickle.Unpickler):
    """Unpickler of lists, dicts and NumPy and SciPy arrays of numbers."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of a known name; no module is imported."""
        try:
            return KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} is not an array of numbers") from None


class _Array:
    """State of a pickled NumPy array."""

    values: NDArray[Any]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, is_fortran, content = state
        values = np.frombuffer(content.encode("latin1"), dtype)
        self.values = values.reshape(shape, order="F" if is_fortran else "C")


class _SparseRows:
    """State of a pickled SciPy matrix in the format CSR."""

    data: _Array
    indices: _Array
    indptr: _Array
    _shape: tuple[int, int]


KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): np.dtype,
    ("scipy.sparse.csr", "csr_matrix"): _SparseRows,
    ("collections", "defaultdict"): lambda *_: {},
    ("__builtin__", "list"): list,
}
"""Replacements of the classes and functions that the files name."""


def _dense(value: _Array | _SparseRows) -> Tensor:
    if isinstance(value, _Array):
        return torch.tensor(value.values, dtype=torch.float32)
    data, columns, start = (
        torch.tensor(array.values) for array in (value.data, value.indices, value.indptr)
    )
    rows = torch.arange(len(start) - 1).repeat_interleave(start.diff())
    matrix = torch.zeros(value._shape)
    return matrix.index_put((rows, columns), data.float(), accumulate=True)
