"""Graphs of edges with types: nodes are numbered for each type, as ``type * N + node``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Edges, Graph
from edgewise.interop.pyg.adjacency import cached_for, check_one_per_edge


class Nodes(NamedTuple):
    """Pairs of an edge type and a node that occur in a graph, sorted by type."""

    node: Tensor
    sizes: list[int]
    """Number of pairs of each type."""
    of_edge: Tensor
    """Pair of each edge."""


class Relations(NamedTuple):
    """A graph with edge types, and its sources and targets numbered for each type."""

    stacked: Edges
    sources: Nodes
    targets: Nodes
    by_target: Edges
    """Edges from sources to pairs of a type and a target."""
    summed: Edges
    """Edges from these pairs to the targets."""


def relations_of(
    adjacency: Tensor, edge_type: Tensor | None, graph: Graph, num_types: int
) -> Relations:
    """Return the :class:`Relations` of a graph, cached until ``edge_type`` changes.

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

    def make() -> Relations:
        if types.numel() and not 0 <= int(types.min()) <= int(types.max()) < num_types:
            raise ArgumentError(
                "edge_type",
                expected=f"integers from 0 to {num_types - 1}",
                got=f"integers from {int(types.min())} to {int(types.max())}",
                remedy="build the layer with num_relations for all types",
            )
        stacked = torch.stack(
            [types * graph.num_sources + graph.source, types * graph.num_targets + graph.target]
        )
        sources = _numbered(stacked[0], graph.num_sources, num_types)
        targets = _numbered(stacked[1], graph.num_targets, num_types)
        num_pairs = len(targets.node)
        pair = torch.arange(num_pairs, device=graph.device)
        return Relations(
            Edges(stacked, num_types * graph.num_targets, num_types * graph.num_sources),
            sources,
            targets,
            Edges(torch.stack([graph.source, targets.of_edge]), num_pairs, graph.num_sources),
            Edges(torch.stack([pair, targets.node]), graph.num_targets, num_pairs),
        )

    return cached_for(edge_type, ("relations", graph, num_types), make)


def _numbered(stacked: Tensor, num_nodes: int, num_types: int) -> Nodes:
    pairs, of_edge = stacked.unique(return_inverse=True)
    sizes = (pairs // max(num_nodes, 1)).bincount(minlength=num_types)
    return Nodes(pairs % max(num_nodes, 1), sizes.tolist(), of_edge)


def mapped(x: Tensor, sizes: list[int], weight: Tensor) -> Tensor:
    """Multiply consecutive rows of x ``[P, F]`` by the weight of their type.

    ``weight`` is ``[R, F, F']``, or ``[R, B, F / B, F' / B]`` for block-diagonal matrices.
    """
    rows = x.split(sizes)
    if weight.dim() == 3:
        return torch.cat([r @ w for r, w in zip(rows, weight, strict=True)])
    blocks = [
        torch.einsum("nbi,bij->nbj", r.unflatten(1, (len(w), -1)), w).flatten(1)
        for r, w in zip(rows, weight, strict=True)
    ]
    return torch.cat(blocks)
