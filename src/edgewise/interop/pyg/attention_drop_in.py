"""Base class of GATConv, GATv2Conv and TransformerConv: self-loops, edge features, results."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.utils import is_torch_sparse_tensor

from edgewise._utils.arguments import check_type, describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention.biases import EdgeVector, Projected
from edgewise.attention.scores import Score
from edgewise.graphs import Graph
from edgewise.interop.pyg.adjacency import (
    EdgeShapeError,
    Size,
    edge_features,
    fresh_loops,
    looped_features,
    sparse_like,
)
from edgewise.interop.pyg.drop_in import DropIn, Pair, as_pair
from edgewise.interop.weighted_attention import attend_and_weigh


class AttentionDropIn(DropIn):
    """Base class of layers with attention heads; weights at a target sum to 1 for each head."""

    reductions: ClassVar[tuple[str, ...]] = ("add", "sum")
    vector_features: ClassVar[bool] = True  # Edge features may be [E] instead of [E, 1].

    def _weighted_maps(self) -> Iterable[nn.Module]:
        linear = getattr(self, "lin_edge", None)
        return () if linear is None else (linear,)

    def _looped(
        self, adjacency: Tensor, pair: Pair, edge_attr: Tensor | None, size: Size = None
    ) -> tuple[Graph, Tensor | None]:
        """Return the graph and edge features ``[E, F]``, with self-loops if the layer adds them."""
        graph = self._graph(adjacency, pair, size)
        if not self.add_self_loops:
            return graph, self._edge_features(adjacency, edge_attr)
        if edge_attr is not None and is_torch_sparse_tensor(adjacency):
            raise ArgumentError(
                "edge_attr",
                expected="None, because the layer adds self-loops to the sparse matrix",
                got=describe(edge_attr),
                remedy="store the features as values of the matrix, or pass an edge_index",
            )
        features = self._edge_features(adjacency, edge_attr)
        if features is not None:
            features = looped_features(graph, features, self.fill_value, self._forwards)
        return fresh_loops(graph)[0], features

    def _edge_features(self, adjacency: Tensor, edge_attr: Tensor | None) -> Tensor | None:
        """Return edge features ``[E, F]`` that match ``lin_edge``."""
        linear = self.lin_edge
        lazy = linear is None or isinstance(linear.weight, UninitializedParameter)
        width = None if lazy else linear.weight.shape[1]
        features = edge_features(adjacency, edge_attr, width, vector=self.vector_features)
        if features is not None and not lazy:
            check_type("edge_attr", features, linear.weight)
        return features

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        graph: Graph,
        *,
        att: Tensor,
        score: Score,
        edge_key: EdgeVector | None,
        return_weights: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and, if ``return_weights``, the attention weights after dropout."""
        # Under autocast, projections are 16-bit and ``att`` is not; as in PyG, the result is not.
        dtype = torch.promote_types(value.dtype, att.dtype)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
        dropout = self.dropout if self.training else 0.0
        return attend_and_weigh(
            query,
            key,
            value,
            graph,
            dropout=dropout,
            return_weights=bool(return_weights),
            score=score,
            edge_key=edge_key,
        )

    def _edge_vector(self, features: Tensor | None) -> Projected | None:
        """Return ``lin_edge(features)`` as an edge term, without expanding it to ``[E, H, D]``."""
        if features is None:
            return None
        if self.lin_edge is None:
            raise EdgeShapeError(
                "edge_attr",
                expected=f"None, because this {type(self).__name__} has no edge_dim",
                got=f"shape {list(features.shape)}",
                remedy=f"build the layer with edge_dim={features.shape[-1]}",
            )
        if isinstance(self.lin_edge.weight, UninitializedParameter):
            self.lin_edge(features)
        return Projected(features, self.lin_edge.weight.unflatten(0, (self.heads, -1)))

    def _join_heads(
        self,
        heads: Tensor,
        residual: Tensor | None,
        adjacency: Tensor,
        graph: Graph,
        weights: Tensor | None,
    ) -> Any:
        """Join the heads, add residual and bias, and return the output (with weights if given)."""
        out = heads.flatten(1) if self.concat else heads.mean(1)
        for term in (residual, self.bias):
            out = out if term is None else out + term
        if weights is None:
            return out
        if is_torch_sparse_tensor(adjacency):
            return out, sparse_like(adjacency, graph, weights)
        if not self.add_self_loops:
            return out, (adjacency, weights)
        index = graph.edge_index
        return out, (index if self._forwards else index.flip(0), weights)


def both(x: Tensor | Pair) -> tuple[Tensor, Tensor]:
    """Return :func:`as_pair`; raise ArgumentError if there are no features of the targets."""
    source, target = as_pair(x)
    if target is None:
        raise ArgumentError(
            "x",
            expected="features of sources and of targets",
            got="None as features of the targets",
            remedy="pass (x_source, x_target), or use GATConv",
        )
    return source, target
