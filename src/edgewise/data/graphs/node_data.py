"""One graph whose nodes have a class each: what a run keeps of it, and of a new one."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.splits import Data, Split
from edgewise.graphs import Graph, edges


class NodeGraph(NamedTuple):
    """Nodes by their ids, features ``[N, F]`` as a model reads them, and edges ``[2, E]``."""

    ids: list[str]
    x: Tensor
    edge_index: Tensor

    @property
    def graph(self) -> Graph:
        """Who reads whom."""
        return edges(self.edge_index, len(self.ids))


@dataclass(frozen=True)
class NodeData(Data):
    """Node classification on one graph, of which a batch is all, and the nodes of a split count."""

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    @abstractmethod
    def read_new(self, path: Path, fitted: dict[str, Any]) -> NodeGraph:
        """Another graph, from files like those that were trained on.

        Args:
            path: where they are.
            fitted: what was kept of the data, with the scale of the features.

        Raises:
            ArgumentError: the files, or the features, do not fit.
            MissingDataError: a file is missing.

        """


def kept_graph(found: NodeGraph, labels: Sequence[str]) -> dict[str, Any]:
    """The graph and the names of the classes as a run keeps them; see ``Splits.fitted``."""
    kept: dict[str, Any] = {"ids": found.ids, "labels": list(labels), "edges": found.edge_index}
    if found.x.layout is torch.strided:
        return kept | {"x": found.x}
    x = found.x
    parts = {"x_rows": x.crow_indices(), "x_columns": x.col_indices(), "x_values": x.values()}
    return kept | parts | {"width": x.shape[1]}


def graph_kept(kept: dict[str, Any]) -> NodeGraph:
    """The graph that :func:`kept_graph` kept."""
    if "x" in kept:
        return NodeGraph(kept["ids"], kept["x"], kept["edges"])
    places = kept["x_rows"], kept["x_columns"]
    shape = len(kept["ids"]), kept["width"]
    with _without_beta_warning():
        x = torch.sparse_csr_tensor(*places, kept["x_values"], shape)
    return NodeGraph(kept["ids"], x, kept["edges"])


def csr(x: Tensor) -> Tensor:
    """The matrix as ``torch.sparse_csr``."""
    with _without_beta_warning():
        return x.to_sparse_csr()


def identity(count: int) -> Tensor:
    """Features that only tell the nodes apart, as ``torch.sparse_csr``."""
    with _without_beta_warning():
        return torch.sparse_csr_tensor(
            torch.arange(count + 1), torch.arange(count), torch.ones(count), (count, count)
        )


def node_split(x: Tensor, graph: Graph, target: Tensor, select: Tensor | None) -> Split:
    """The one batch of the whole graph, of which these nodes count."""
    batch = Batch((x, graph), target, select)
    return Split(1, lambda _index: batch)


def _without_beta_warning() -> warnings.catch_warnings[None]:
    return warnings.catch_warnings(
        action="ignore", category=UserWarning
    )  # sparse CSR "is in beta state"
