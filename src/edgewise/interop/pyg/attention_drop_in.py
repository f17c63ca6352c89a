"""Base class of GATConv, GATv2Conv and TransformerConv: self-loops, edge features, results."""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import Linear
from torch_geometric.utils import is_torch_sparse_tensor

from edgewise.attention import AttendOptions, aggregate, attend
from edgewise.biases import EdgeVector, Projected
from edgewise.edge_steps import attention_weights
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph
from edgewise.interop.pyg.adjacency import (
    Size,
    edge_features,
    fresh_loops,
    looped_features,
    sparse_like,
)
from edgewise.interop.pyg.drop_in import DropIn
from edgewise.scores import Score

Pair = tuple[Tensor, Tensor | None]


class AttentionDropIn(DropIn):
    """Base class of layers with attention heads; weights at a target sum to 1 for each head."""

    reductions: ClassVar[tuple[str, ...]] = ("add", "sum")

    def _looped(
        self, adjacency: Tensor, pair: Pair, edge_attr: Tensor | None, size: Size = None
    ) -> tuple[Graph, Tensor | None]:
        """Return the graph and edge features ``[E, F]``, with self-loops if the layer adds them."""
        graph = self._graph(adjacency, pair, size)
        features = edge_features(adjacency, edge_attr)
        if not self.add_self_loops:
            return graph, features
        if features is not None:
            features = looped_features(graph, features, self.fill_value, self._forwards)
        return fresh_loops(graph)[0], features

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        graph: Graph,
        *,
        score: Score,
        edge_key: EdgeVector | None,
        show: bool | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output and, if ``show``, the attention weights after dropout."""
        dropout = self.dropout if self.training else 0.0
        terms: AttendOptions = {"score": score, "edge_key": edge_key}
        if not show:
            return attend(query, key, value, graph, **terms | {"dropout": dropout}), None
        weight = F.dropout(attention_weights(query, key, graph, **terms), dropout)
        return aggregate(value, graph, weight=weight), weight

    def _edge_vector(self, features: Tensor | None) -> Projected | None:
        """Return ``lin_edge(features)`` as an edge term, without expanding it to ``[E, H, D]``."""
        if features is None:
            return None
        if self.lin_edge is None:
            raise ArgumentError(
                "edge_attr",
                expected=f"None, because this {type(self).__name__} has no edge_dim",
                got=f"shape {list(features.shape)}",
                remedy=f"build the layer with edge_dim={features.shape[-1]}",
            )
        return Projected(features, _heads_of(self.lin_edge, features, self.heads))

    def _finished(
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
        index = graph.edge_index
        return out, (index if self._forwards else index.flip(0), weights)


def as_pair(x: Tensor | Pair) -> Pair:
    """Return the features of sources and of targets; both are ``x`` if it is one tensor."""
    return (x, x) if isinstance(x, Tensor) else (x[0], x[1])


def _heads_of(linear: Linear, features: Tensor, heads: int) -> Tensor:
    """Reshape the weight ``[H * D, F]`` of a linear layer to ``[H, D, F]``.

    F is the number of input features. A lazy layer is initialised first.
    """
    if isinstance(linear.weight, UninitializedParameter):
        linear(features)
    weight: Tensor = linear.weight.unflatten(0, (heads, -1))
    return weight
