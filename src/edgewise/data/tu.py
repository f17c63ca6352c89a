"""Graph classification sets of TU Dortmund: MUTAG, ENZYMES, PROTEINS and many more.

Paper: Morris et al., TUDataset: a collection of benchmark datasets for learning with graphs, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from edgewise.data.batch import Batch
from edgewise.data.checks import check_features, check_labels
from edgewise.data.files import find_raw
from edgewise.data.folds import Folds
from edgewise.data.packed import PackedGraphs
from edgewise.data.planetoid import expected_warnings
from edgewise.data.splits import Data, Split, Splits
from edgewise.errors import ArgumentError, MissingExtraError
from edgewise.ranges import check_least


@dataclass(frozen=True)
class TU(Data):
    """A graph an example, and its class; folds have equal shares of each class.

    A model is called ``model(x, graph, batch=members)``: node features, the graph of a batch and
    the graph of membership, in which output b reads the nodes of its graph.

    Attributes:
        name: of the set, as its files begin.
        attributes: give the model the nodes' measured attributes too, where there are some, scaled
            to mean 0 and variance 1 over the training split. Node labels are always given, one-hot;
            without either, every node has the feature 1.
        folds, fold, val, split_seed: see :class:`~edgewise.data.folds.Folds`.
        batch_size: graphs in a batch.

    """

    name: str = "MUTAG"
    attributes: bool = True
    folds: int = 10
    fold: int = 0
    val: float = 0.1
    split_seed: int = 0
    batch_size: int = 32

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    def __post_init__(self) -> None:
        self._folds()
        check_least("data.batch_size", self.batch_size, 1, "choose for example 32")

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    @property
    def files(self) -> list[str]:
        """Names of the raw files without which there is nothing to learn."""
        return [f"{self.name}_{part}.txt" for part in ("A", "graph_indicator", "graph_labels")]

    def load(self) -> Splits:
        graphs, attributes, y = _read(find_raw(self.name, self.files, self._download), self.name)
        classes = int(y.max()) + 1
        check_labels(y, classes)
        index = self._folds().split("stratified", y.tolist())
        if self.attributes and attributes.shape[1]:
            member = torch.arange(len(graphs)).repeat_interleave(graphs.sizes)
            train = attributes[torch.isin(member, index["train"])]
            spread = train.std(0, correction=0).clamp(min=1e-12)
            graphs = graphs.with_nodes(
                torch.cat([(attributes - train.mean(0)) / spread, graphs.x], dim=1)
            )
        return Splits(
            {"in_width": graphs.x.shape[1], "out_width": classes},
            **{name: _part(graphs, i, y) for name, i in index.items()},
            batch_size=self.batch_size,
        )

    def _download(self, folder: Path) -> None:
        with expected_warnings():
            from torch_geometric.datasets import TUDataset
            from torch_geometric.io import fs

            fs.cp(f"{TUDataset.url}/{self.name}.zip", str(folder), extract=True)
        for file in (folder / self.name).iterdir():
            file.rename(folder / file.name)
        (folder / self.name).rmdir()


def _read(raw: Path, name: str) -> tuple[PackedGraphs, Tensor, Tensor]:
    """The graphs with their labels as node features, the attributes of nodes, and the classes."""
    try:
        with expected_warnings():
            from torch_geometric.io import read_tu_data
    except ImportError as error:
        raise MissingExtraError("torch_geometric", "graphs", f"the data set {name}") from error
    try:
        with expected_warnings():
            data, slices, sizes = read_tu_data(str(raw), name)
    except (ValueError, IndexError, RuntimeError, KeyError) as error:
        raise ArgumentError(
            "data.name",
            expected=f"the files of {name} in {raw}, as their README says",
            got=f"files that cannot be read together ({error})",
            remedy="copy or download them again",
        ) from error
    x = data.x if data.x is not None else torch.ones(data.num_nodes, 1)
    check_features(x)
    split = sizes["num_node_attributes"]
    labels = x[:, split:] if x.shape[1] > split else torch.ones(len(x), 1)
    node_start = slices.get("x")
    if node_start is None:
        node_start = torch.tensor([0, *data._num_nodes]).cumsum(0)
    edge_start = slices["edge_index"]  # ends at the last graph that has an edge
    edgeless = edge_start[-1:].expand(len(node_start) - len(edge_start))
    edges = data.edge_attr if data.edge_attr is not None else torch.ones(int(edge_start[-1]), 0)
    edge_start = torch.cat([edge_start, edgeless])
    graphs = PackedGraphs(labels, data.edge_index, edges, node_start, edge_start)
    return graphs, x[:, :split], data.y


def _part(graphs: PackedGraphs, which: Tensor, y: Tensor) -> Split:
    def make(index: Tensor) -> Batch:
        x, graph, members, _edges = graphs.take(which[index])
        return Batch((x, graph), y[which[index]], keywords={"batch": members})

    return Split(len(which), make)
