"""Graph classification on the sets of TU Dortmund: MUTAG, ENZYMES, PROTEINS and many more.

Paper: Morris et al., TUDataset: a collection of benchmark datasets for learning with graphs, 2020.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_least
from edgewise.batches import Batch
from edgewise.data.codes import Codes
from edgewise.data.files import check_name, fetch, find_raw, naming, unpack, unreadable
from edgewise.data.folds import Folds
from edgewise.data.graphs.edge_splits import distinct
from edgewise.data.packed import PackedGraphs
from edgewise.data.reading import check_line_count, read_numbers
from edgewise.data.splits import Data, Split, Splits
from edgewise.ragged import boundaries

ADDRESS = "https://www.chrsmrrs.com/graphkerneldatasets"
REQUIRED = ("A", "graph_indicator", "graph_labels")


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
        check_name(self.name)
        self._folds()
        check_least("data.batch_size", self.batch_size, 1, "choose for example 32")

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    @property
    def files(self) -> list[str]:
        """Names of the raw files without which there is nothing to learn."""
        return [f"{self.name}_{part}.txt" for part in REQUIRED]

    def load(self) -> Splits:
        graphs, attributes, y = _read(find_raw(self.name, self.files, self._download), self.name)
        classes = int(y.max()) + 1
        with naming(*self.files):
            index = self._folds().split("stratified", y.tolist())
        if self.attributes and attributes.shape[1]:
            member = torch.arange(len(graphs)).repeat_interleave(graphs.sizes)
            known = attributes[torch.isin(member, index["train"])]
            std = known.std(0, correction=0).clamp(min=1e-12)
            graphs = graphs.with_nodes(
                torch.cat([(attributes - known.mean(0)) / std, graphs.x], dim=1)
            )
        codes = Codes(graphs)
        train, val, test = (labelled(codes, index[part], y) for part in ("train", "val", "test"))
        sizes = {"in_width": graphs.x.shape[1], "out_width": classes}
        return Splits(sizes, train, val, test, self.batch_size, codes=codes)

    def _download(self, folder: Path) -> None:
        archive = f"{self.name}.zip"
        fetch({archive: f"{ADDRESS}/{archive}"}, folder)
        unpack(folder / archive, folder)
        (folder / archive).unlink()
        for file in folder.glob(f"{self.name}/*"):
            file.rename(folder / file.name)
        (folder / self.name).rmdir()


def _read(raw: Path, name: str) -> tuple[PackedGraphs, Tensor, Tensor]:
    """The graphs with their labels as node features, the attributes of nodes, and the classes."""
    a, indicator, graph_labels, node_labels, node_attributes = (
        raw / f"{name}_{part}.txt" for part in (*REQUIRED, "node_labels", "node_attributes")
    )
    classes = read_numbers(graph_labels, integers=True)
    member = _members(indicator)
    nodes, graphs = len(member), int(member[-1]) + 1
    check_line_count(graph_labels, classes, graphs, f"graphs of {indicator.name}")
    labels, attributes = torch.ones(nodes, 1), torch.empty(nodes, 0)
    if node_labels.is_file():
        columns = read_numbers(node_labels, integers=True)
        check_line_count(node_labels, columns, nodes, f"nodes of {indicator.name}")
        numbered = [column.unique(return_inverse=True)[1] for column in columns.T]
        labels = torch.cat([F.one_hot(column) for column in numbered], dim=1).float()
    if node_attributes.is_file():
        attributes = read_numbers(node_attributes)
        check_line_count(node_attributes, attributes, nodes, f"nodes of {indicator.name}")
    source, target = _edges(a, member)
    sizes, degrees = (torch.bincount(of, minlength=graphs) for of in (member, member[source]))
    node_start, edge_start = boundaries(sizes), boundaries(degrees)
    inside = torch.stack([source, target]) - node_start[member[source]]
    packed = PackedGraphs(labels, inside, torch.empty(len(source), 0), node_start, edge_start)
    return packed, attributes, classes[:, 0].unique(return_inverse=True)[1]


def _members(path: Path) -> Tensor:
    """The graph of each node, ``[N]``, from 0; every graph has nodes, and they stand together."""
    member = read_numbers(path, integers=True)[:, 0] - 1
    step = member.diff(prepend=torch.tensor([-1]))
    wrong = ((step < 0) | (step > 1) | (member < 0)).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise unreadable(
            path,
            expected="the graph of each node, from 1 and without gaps, one after the other",
            got=f"graph {int(member[row]) + 1} after {int(member[row] - step[row]) + 1}",
            line=row + 1,
        )
    return member


def _edges(path: Path, member: Tensor) -> Tensor:
    """Distinct edges ``[2, E]`` without loops, sorted, each inside of one graph."""
    pairs = read_numbers(path, integers=True) - 1
    nodes = len(member)
    outside = (pairs.shape[1] != 2) | (pairs < 0).any(1) | (pairs >= nodes).any(1)
    if not outside.any():
        outside = member[pairs[:, 0]] != member[pairs[:, 1]]
    if outside.any():
        row = int(outside.nonzero()[0])
        raise unreadable(
            path,
            expected=f"two of the {nodes} nodes in each line, both in one graph",
            got=", ".join(str(end + 1) for end in pairs[row].tolist()),
            line=row + 1,
        )
    source, target = pairs[pairs[:, 0] != pairs[:, 1]].T
    return distinct(torch.stack([source, target]))


def labelled(codes: Codes, which: Tensor, y: Tensor) -> Split:
    """These graphs and their classes, with the codes that there will be."""

    def make(index: Tensor) -> Batch:
        x, graph, members, _edges = codes.graphs.take(which[index])
        keywords = {"batch": members, **codes.take(which[index])}
        return Batch((x, graph), y[which[index]], keywords=keywords)

    return Split(len(which), make)
