"""Typed graphs of PyG's ``edge_index`` and ``edge_type``, and matrices of relations."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Graph
from edgewise.graphs.typed import TypedGraph
from edgewise.interop.pyg.adjacency import cached_for, check_one_per_edge
from edgewise.layers.typed import grouped_matmul


def typed_graph_of(
    adjacency: Tensor, edge_type: Tensor | None, graph: Graph, num_types: int
) -> TypedGraph:
    """Return the graph with its edge types, cached until ``edge_type`` changes.

    Raises:
        ArgumentError: ``edge_type`` does not hold one integer below ``num_types`` for each edge.
    """
    if adjacency.layout is torch.sparse_coo and not adjacency.is_coalesced():
        raise ArgumentError(
            "edge_index",
            expected="a coalesced matrix, whose entries are in the order of edge_type",
            got="an uncoalesced matrix",
            remedy="pass edge_index.coalesce(), with one edge_type for each of its entries",
        )
    if edge_type is None or not isinstance(edge_type, Tensor) or edge_type.is_floating_point():
        raise ArgumentError(
            "edge_type",
            expected=f"one integer for each edge, shape [{graph.num_edges}]",
            got=describe(edge_type),
            remedy="pass the type of each column of edge_index",
        )
    check_one_per_edge("edge_type", edge_type, graph.num_edges)
    types = edge_type.detach().long()

    def make() -> TypedGraph:
        if types.numel() and not 0 <= int(types.min()) <= int(types.max()) < num_types:
            raise ArgumentError(
                "edge_type",
                expected=f"integers from 0 to {num_types - 1}",
                got=f"integers from {int(types.min())} to {int(types.max())}",
                remedy="build the layer with num_relations for all types",
            )
        sizes = graph.num_targets, graph.num_sources
        return TypedGraph(graph.edge_index, *sizes, types.clone(), range(num_types))

    return cached_for(edge_type, ("typed", graph, num_types), make)


def mapped(x: Tensor, sizes: list[int], weight: Tensor) -> Tensor:
    """Multiply consecutive rows of x ``[P, F]`` by the weight of their type.

    ``weight`` is ``[R, F, F']``, or ``[R, B, F / B, F' / B]`` for block-diagonal matrices.
    """
    if weight.dim() == 3:
        return grouped_matmul(x, sizes, weight)
    return grouped_matmul(x.unflatten(1, (weight.shape[1], -1)), sizes, weight).flatten(1)
