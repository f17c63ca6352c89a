"""Node classification on one graph: saved graph, and conversion of new graphs for prediction."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.edges import EdgeTable
from edgewise.app.train.batches import UNLABELLED, Batch
from edgewise.app.train.neighbours import (
    NeighbourSampler,
    check_fanouts,
    check_graph_memory,
    neighbour_draw,
    rows_of,
)
from edgewise.app.train.preprocessing import Preprocessing
from edgewise.app.train.sampled import SampledSplit
from edgewise.app.train.splits import Data, Split
from edgewise.graphs import Graph, TypedGraph, edges
from edgewise.graphs.typed import REVERSED

QUICK = 20_000
"""Maximum number of nodes with which ``edgewise train`` evaluates baselines."""
QUICK_FEATURES = 15_000_000
"""Maximum number of entries of the feature matrix with which ``edgewise train`` evaluates
baselines; averaging over neighbours makes it dense."""


def is_large(run: Preprocessing) -> bool:
    """Return whether the baselines for these data take more than about a minute."""
    count = len(run.values.get("ids", ()))
    return bool(count > QUICK or count * run.model_arguments["in_width"] > QUICK_FEATURES)


class Types(NamedTuple):
    """Relations of edges ``[E]`` and types of nodes ``[N]``, with their names."""

    edge_type: Tensor
    relations: tuple[str, ...]
    node_type: Tensor
    node_types: tuple[str, ...]

    def graph(self, edge_index: Tensor) -> TypedGraph:
        """Return the typed graph of these edges."""
        count = len(self.node_type)
        relations = [("", name, "") for name in self.relations]
        return TypedGraph(
            edge_index,
            count,
            count,
            self.edge_type,
            relations,
            node_type=self.node_type,
            node_types=self.node_types,
        )


class NodeGraph(NamedTuple):
    """Node ids, input features ``[N, F]``, edges ``[2, E]`` and types, if any, of a graph."""

    ids: list[str]
    x: Tensor
    edge_index: Tensor
    types: Types | None = None

    @property
    def graph(self) -> Graph:
        """Attention graph of the edges."""
        if self.types is not None:
            return self.types.graph(self.edge_index)
        return edges(self.edge_index, len(self.ids))

    def sizes(self) -> dict[str, int]:
        """Return the arguments of the model that the types determine."""
        if self.types is None:
            return {}
        sizes, count = {"relations": len(self.types.relations)}, len(self.types.node_types)
        # Models without types of nodes, such as R-GCN, have no argument for their number.
        return sizes | ({"node_types": count} if count > 1 else {})


@dataclass(frozen=True)
class NodeData(Data):
    """Base class of node classification data; a batch is the graph with the targets of a split.

    Attributes:
        unlabelled: whether training is semi-supervised: the training batch has all nodes, with
            target -100 for those not in the training set, for
            :class:`~edgewise.app.kinds.nodes.Consistency`.
        fanouts: for large graphs, maximum numbers of edges into a node that are sampled, one for
            each layer of the model. Training batches are then the sampled neighbourhoods of
            ``batch_size`` training nodes; validation and test use all edges.
        batch_size: number of training nodes of a batch with ``fanouts``.
    """

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width", "relations", "node_types")

    unlabelled: bool = field(default=False, kw_only=True)
    fanouts: tuple[int, ...] = field(default=(), kw_only=True)
    batch_size: int = field(default=512, kw_only=True)

    def __post_init__(self) -> None:
        check_range("data.batch_size", self.batch_size, "choose for example 512", least=1)
        check_fanouts(self.fanouts, "data.fanouts", empty=True)
        if self.fanouts and self.unlabelled:
            raise ArgumentError(
                "data.fanouts",
                expected="no fanouts for a loss over all nodes",
                got=", ".join(map(str, self.fanouts)),
                remedy="leave out data.fanouts, or use a recipe without data.unlabelled",
            )

    def node_splits(
        self,
        x: Tensor,
        graph: Graph,
        y: Tensor,
        nodes: Mapping[str, Tensor],
        argument: str = "data",
    ) -> dict[str, Split]:
        """Return the splits with targets ``y [N, ...]`` of ``nodes``, by name; ``argument`` names
        the graph in errors.
        """
        check_graph_memory(argument, len(x), graph.num_edges, self.fanouts)
        splits = {name: node_split(x, graph, y[index], index) for name, index in nodes.items()}
        if self.unlabelled:
            splits["train"] = semi_supervised_split(x, graph, y, nodes["train"])
        elif self.fanouts:
            sampler = NeighbourSampler(graph, self.fanouts)
            train = nodes["train"]
            splits["train"] = SampledSplit(
                len(train),
                # Baselines read the whole graph.
                lambda index: Batch((x, graph), y[train[index]], train[index]),
                sample=neighbour_draw(sampler, partial(rows_of, x), y, train),
                size=self.batch_size,
            )
        return splits

    @abstractmethod
    def read_new(self, path: Path, preprocessing: dict[str, Any]) -> NodeGraph:
        """Read another graph from files of the same form, scaled by the saved preprocessing."""


def graph_record(graph: NodeGraph, labels: Sequence[str]) -> dict[str, Any]:
    """Return the graph and the class names as values saved with a trained model."""
    x = graph.x
    record: dict[str, Any] = {"ids": graph.ids, "labels": list(labels), "edges": graph.edge_index}
    if graph.types is not None:
        edge_type, relations, node_type, node_types = graph.types
        record |= {"edge_types": edge_type, "relations": list(relations)}
        record |= {"types_of_nodes": node_type, "node_types": list(node_types)}
    if x.layout is torch.strided:
        return record | {"x": x}
    csr_arrays = {"x_rows": x.crow_indices(), "x_columns": x.col_indices(), "x_values": x.values()}
    return record | csr_arrays | {"width": x.shape[1]}


def saved_graph(record: dict[str, Any]) -> NodeGraph:
    """Return the graph saved by :func:`graph_record`."""
    types = None
    if "relations" in record:
        types = Types(
            record["edge_types"],
            tuple(map(str, record["relations"])),
            record["types_of_nodes"],
            tuple(map(str, record["node_types"])),
        )
    if "x" in record:
        return NodeGraph(record["ids"], record["x"], record["edges"], types)
    csr_arrays = record["x_rows"], record["x_columns"], record["x_values"]
    shape = len(record["ids"]), record["width"]
    with _without_beta_warning():
        x = torch.sparse_csr_tensor(*csr_arrays, shape, check_invariants=True)
    return NodeGraph(record["ids"], x, record["edges"], types)


def typed_edges(
    table: EdgeTable, pairs: Tensor, node_type: Tensor, node_types: Sequence[str], directed: bool
) -> tuple[Tensor, Types]:
    """Return distinct typed edges ``[2, E]`` without self-loops, sorted by relation and target.

    Unless ``directed``, each edge is also reversed, in a relation ``rev_NAME``.
    """
    assert table.edge_type is not None
    relations, edge_type = table.relations, table.edge_type
    if not directed:
        pairs = torch.cat([pairs, pairs.flip(0)], dim=1)
        edge_type = torch.cat([edge_type, edge_type + len(relations)])
        relations = (*relations, *(REVERSED + name for name in relations))
    is_loop = pairs[0] == pairs[1]
    keys = torch.stack([edge_type, pairs[1], pairs[0]], dim=1)[~is_loop]
    edge_type, target, source = keys.unique(dim=0).T.contiguous()
    return torch.stack([source, target]), Types(
        edge_type.clone(), relations, node_type, tuple(node_types)
    )


def csr(x: Tensor) -> Tensor:
    """Convert a matrix to ``torch.sparse_csr``."""
    with _without_beta_warning():
        return x.to_sparse_csr()


def identity(count: int) -> Tensor:
    """Return one-hot features that identify each node, as ``torch.sparse_csr``."""
    with _without_beta_warning():
        return torch.sparse_csr_tensor(
            torch.arange(count + 1), torch.arange(count), torch.ones(count), (count, count)
        )


def node_split(x: Tensor, graph: Graph, target: Tensor, select: Tensor | None) -> Split:
    """Return a split whose only batch is the whole graph, with targets ``[M, ...]`` of the nodes
    ``select``.
    """
    batch = Batch((x, graph), target, select)
    return Split(1, lambda _index: batch)


def semi_supervised_split(x: Tensor, graph: Graph, target: Tensor, labelled: Tensor) -> Split:
    """Return a split whose loss uses nodes without labels: the target of all but ``labelled`` is
    -100.
    """
    train_target = target.new_full(target.shape, UNLABELLED)
    return node_split(x, graph, train_target.index_copy_(0, labelled, target[labelled]), None)


def _without_beta_warning() -> warnings.catch_warnings[None]:
    # PyTorch warns that sparse CSR is in beta state.
    return warnings.catch_warnings(action="ignore", category=UserWarning)
