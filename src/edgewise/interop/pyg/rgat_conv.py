"""``RGATConv``: attention over edges of several relations, each with its own projection."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import nn

from edgewise.attention.attend import aggregate
from edgewise.attention.steps import edge_softmax
from edgewise.graphs import Graph
from edgewise.graphs.typed import source_pairs, target_pairs
from edgewise.interop.pyg.adjacency import Size
from edgewise.interop.pyg.attention_drop_in import AttentionDropIn
from edgewise.interop.pyg.drop_in import as_pair, or_pyg
from edgewise.interop.pyg.relations import mapped, typed_graph_of
from edgewise.layers.sparse import check_node_features

ADDITIVE = "additive-self-attention"


class RGATConv(AttentionDropIn, nn.RGATConv):  # type: ignore[misc]
    r"""PyG's ``RGATConv``, :math:`\sum_j \alpha_{ij} W_{r(ij)} x_j` (Busbridge et al., 2019).

    A node is projected once for each relation that it has edges of. PyG copies the matrix of a
    relation for each edge.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import RGATConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> layer = RGATConv(16, 8, num_relations=2, heads=2)
        >>> layer(torch.randn(3, 16), edge_index, torch.tensor([0, 1, 1])).shape
        torch.Size([3, 16])
    """

    @or_pyg
    def forward(  # noqa: PLR0917 - PyG's signature
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_type: Tensor | None = None,
        edge_attr: Tensor | None = None,
        size: Size = None,
        return_attention_weights: bool | None = None,
    ) -> Any:
        """Return ``[N, H * dim * out_channels]``, or the mean over heads.

        With a boolean ``return_attention_weights``, return ``(out, (edge_index, weights))``.
        """
        nodes, _ = as_pair((x, None))
        graph = self._graph(edge_index, (nodes, nodes), size)
        typed = typed_graph_of(edge_index, edge_type, graph, self.num_relations)
        sources, targets = typed.derived(source_pairs), typed.derived(target_pairs)
        weight = self._matrices()
        check_node_features(nodes, weight.flatten(1, -2).shape[1], like=weight)
        source, target = (
            mapped(nodes[pairs.node], pairs.sizes, weight)
            for pairs in (sources.pairs, targets.pairs)
        )
        key, query = (
            (source @ self.k)[sources.pairs.of_edge],
            (target @ self.q)[targets.pairs.of_edge],
        )
        scores = self._scores(key, query, edge_index, edge_attr)
        groups: Graph = graph
        if self.attention_mechanism == "within-relation":
            groups = targets.graph
        weights = edge_softmax(scores, groups)
        value = source.view(-1, self.heads, 1, self.out_channels).expand(-1, -1, self.dim, -1)
        out = self._modified(value.flatten(1, 2), sources.graph, weights)
        out = out.unflatten(1, (self.heads, self.dim))
        out = out.flatten(1) if self.concat else out.mean(1).flatten(1)
        out = out if self.bias is None else out + self.bias
        return (out, (edge_index, weights)) if isinstance(return_attention_weights, bool) else out

    def _matrices(self) -> Tensor:
        """Return the matrix of each relation; see :func:`mapped`."""
        if self.num_bases is None:
            weight: Tensor = self.weight
            return weight
        matrices: Tensor = torch.einsum("rb,bio->rio", self.att, self.basis)
        return matrices

    def _scores(
        self, key: Tensor, query: Tensor, adjacency: Tensor, edge_attr: Tensor | None
    ) -> Tensor:
        """Return the scores ``[E, H * dim]`` of keys and queries of this shape."""
        edges = self._edge_vector(self._edge_features(adjacency, edge_attr))
        term = None if edges is None else edges.expand().flatten(1) @ self.e
        if self.attention_mode == ADDITIVE:
            scores = query + key if term is None else query + key + term
            return F.leaky_relu(scores, self.negative_slope)
        return query * key if term is None else query * key * term

    def _modified(self, value: Tensor, graph: Graph, weights: Tensor) -> Tensor:
        """Return the weighted sum ``[N, H * dim, out_channels]``, changed as ``mod`` says."""
        degree = graph.in_degree().to(weights.dtype)
        if self.mod == "f-additive":
            weights = torch.where(weights > 0, weights + 1, weights)
        elif self.mod == "f-scaled":
            weights = weights * degree[graph.target, None]
        elif self.mod is None and self.training:
            weights = F.dropout(weights, self.dropout)
        out = aggregate(value, graph, weight=weights)
        if self.mod == "additive":
            out = out + self.w * aggregate(value, graph)
        elif self.mod == "scaled":
            hidden = self.activation(degree[:, None] @ self.l1 + self.b1)
            out = out * (hidden @ self.l2 + self.b2)[:, None]
        return out
