"""A Transformer layer on a graph whose edges have features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.biases import Projected
from edgewise.graphs import Pattern
from edgewise.layers.block import TransformerLayer
from edgewise.layers.sequential import GraphLayer


class EdgeVectorLayer(GraphLayer):
    """A pre-norm Transformer layer that adds maps of the edge's features to its key and value.

    The features stay the same from layer to layer, and their maps are never expanded to the edges.

    Args:
        width, heads: as in :class:`~edgewise.layers.TransformerLayer`; the feed-forward network is
            twice as wide inside.
        edge_width: of the edge features.
        dropout: as there.
    """

    def __init__(self, width: int, heads: int, edge_width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer = TransformerLayer(
            width, heads, 2 * width, act="silu", order="pre", dropout=dropout
        )
        self.edge = nn.Parameter(torch.empty(2, heads, width // heads, edge_width))
        nn.init.normal_(self.edge, std=edge_width**-0.5)

    def forward(self, x: Tensor, graph: Pattern, edges: Tensor) -> Tensor:
        """``[N, width]`` from x of that shape and edge features ``[E, edge_width]``."""
        key, value = (Projected(edges, weight) for weight in self.edge)
        out: Tensor = self.layer(x, graph, edge_key=key, edge_value=value)
        return out
