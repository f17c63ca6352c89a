"""``RGCNConv``: neighbours of each relation are reduced, then mapped by its matrix and summed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import aggregate
from edgewise.graphs import Edges, Graph
from edgewise.graphs.typed import stacked, target_pairs
from edgewise.interop.pyg.drop_in import DropIn, or_pyg
from edgewise.interop.pyg.relations import mapped, typed_graph_of
from edgewise.layers.sparse import check_node_features


class RGCNConv(DropIn, nn.RGCNConv):  # type: ignore[misc]
    r"""PyG's ``RGCNConv``, :math:`W_0 x_i + \sum_r W_r \bigoplus_{j \in N_r(i)} x_j`.

    All relations are reduced in one call (Schlichtkrull et al., 2018). Only pairs of a relation and
    a target with an edge are stored and mapped. An edge type out of range raises an error; PyG
    ignores the edge.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import RGCNConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> RGCNConv(16, 8, num_relations=2)(
        ...     torch.randn(3, 16), edge_index, torch.tensor([0, 1, 1])
        ... ).shape
        torch.Size([3, 8])
    """

    @or_pyg
    def forward(self, x: Any, edge_index: Tensor, edge_type: Tensor | None = None) -> Tensor:
        """Return ``[N_dst, out_channels]``; x holds features, integer node ids, or is None."""
        source, target = x if isinstance(x, tuple) else (x, x)
        if source is None:
            source = torch.arange(self.in_channels_l, device=self.weight.device)
        target = source if target is None else target
        for nodes in (source, target):
            _check_nodes(nodes, self.num_blocks)
        weight = self.weight
        if self.comp is not None:
            weight = (self.comp @ weight.flatten(1)).view(-1, *weight.shape[1:])
        ends = (nodes if nodes.dim() == 2 else nodes[:, None] for nodes in (source, target))
        graph = self._graph(edge_index, tuple(ends))
        typed = typed_graph_of(edge_index, edge_type, graph, self.num_relations)
        pairs, by_target, summed = typed.derived(target_pairs)
        if source.is_floating_point():
            check_node_features(source, self.weight.flatten(1, -2).shape[1], like=self.weight)
            rows = mapped(self._reduced(source, by_target, None), pairs.sizes, weight)
        else:
            table = weight[:, source].flatten(0, 1)
            rows = self._reduced(table, typed.derived(_from_rows), None)
        out = aggregate(rows, summed)
        if self.root is not None:
            out = out + (target @ self.root if target.is_floating_point() else self.root[target])
        return out if self.bias is None else out + self.bias


def _from_rows(graph: Graph) -> Edges:
    """Return edges from pairs of a type and any source to pairs of a type and a target."""
    pairs, by_target, _ = graph.derived(target_pairs)
    sources = graph.derived(stacked)
    index = torch.stack([sources.source, pairs.of_edge])
    return Edges(index, by_target.num_targets, sources.num_sources)


def _check_nodes(nodes: Any, num_blocks: int | None) -> None:
    if isinstance(nodes, Tensor):
        has_features = nodes.is_floating_point()
        if nodes.dim() == (2 if has_features else 1) and (has_features or num_blocks is None):
            return
    raise ArgumentError(
        "x",
        expected="features [N, F] in floating point, node ids [N], or None for all nodes"
        + ("; with num_blocks, only features" if num_blocks else ""),
        got=type(nodes).__name__,
        remedy="pass a tensor of features or of node ids",
    )
