"""Layers in a row, some of which read along a graph."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern


class GraphLayer(nn.Module):
    """A layer called with node features and a graph: ``layer(x, graph)``."""


class GraphSequential(GraphLayer):
    """Call each layer in turn, with the graph where it is a :class:`GraphLayer`.

    One graph for every layer; where layers differ in what they read, pass each its own by calling
    them yourself.
    """

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        for layer in self.layers:
            x = layer(x, graph) if isinstance(layer, GraphLayer) else layer(x)
        return x
