"""Sequential containers and shared checks of graph layers."""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_type, describe
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Graph, Pattern, check_graph
from edgewise.graphs.batch import Sizes


class GraphLayer(nn.Module):
    """Base class of layers called with node features and a graph: ``layer(x, graph)``.

    Attributes:
        reads_edge_attr: whether the layer accepts edge features, ``edge_attr=``.
        shares_nodes: whether a node may belong to several graphs of a batch.
        reach: in evaluation, number of steps along edges over which a node's output depends on
            other nodes; ``None`` if it is unknown or unlimited.

    Example:
        >>> import torch
        >>> from edgewise import aggregate, graphs, layers
        >>> class Neighbours(layers.GraphLayer):
        ...     def forward(self, x, graph):
        ...         return aggregate(x, graph, reduce="mean")
        >>> model = layers.GraphSequential(Neighbours(), torch.nn.Linear(16, 3))
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """

    reads_edge_attr: bool = False
    shares_nodes: bool = True
    reach: int | None = None

    def stages(self) -> list[nn.Module]:
        """Return modules that, one after another, compute the same as this layer. Modules that are
        no :class:`GraphLayer` map each node by itself.
        """
        return [self]

    def encodings(self) -> dict[str, nn.Module]:
        """Return the encodings whose codes can be precomputed, by argument of ``forward``."""
        return {}


def shares_nodes(model: nn.Module) -> bool:
    """Return whether all layers of a model allow that a node belongs to several graphs."""
    return all(m.shares_nodes for m in model.modules() if isinstance(m, GraphLayer))


class GraphSequential(GraphLayer):
    """Sequential container that passes the same graph to each :class:`GraphLayer`.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from edgewise import graphs, layers
        >>> first, last = layers.MessagePassing(16, 32), nn.Linear(32, 3)
        >>> model = layers.GraphSequential(first, nn.ReLU(), last)
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.reads_edge_attr = any(getattr(layer, "reads_edge_attr", False) for layer in layers)

    def stages(self) -> list[nn.Module]:
        return [
            stage
            for layer in self.layers
            for stage in (layer.stages() if isinstance(layer, GraphLayer) else [layer])
        ]

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Sizes | Graph | None = None,  # noqa: ARG002 - no edge joins two graphs of a batch
    ) -> Tensor:
        """Return outputs ``[..., N, out_width]``; for the arguments, see :mod:`edgewise.models`."""
        check_graph(graph)
        if edge_attr is not None and not self.reads_edge_attr:
            refuse_edge_attr(edge_attr)
        for layer in self.layers:
            if not isinstance(layer, GraphLayer):
                x = layer(x)
            elif edge_attr is not None and layer.reads_edge_attr:
                x = layer(x, graph, edge_attr=edge_attr)
            else:
                x = layer(x, graph)
        return x


def is_dense(value: object) -> TypeGuard[Tensor]:
    """Return whether ``value`` is a dense tensor."""
    return isinstance(value, Tensor) and value.layout is torch.strided


def check_edge_attr(
    edge_attr: Tensor | None, graph: Graph, width: int, like: Tensor, *, batched: bool = False
) -> None:
    """Raise ArgumentError if edge features are not ``[E, width]`` in the dtype of ``like``.

    ``None`` is accepted, and with ``batched`` also ``[..., E, width]``.
    """
    if edge_attr is None:
        return
    is_float = is_dense(edge_attr) and edge_attr.is_floating_point()
    if not is_float or edge_attr.shape[-2 if batched else 0 :] != (graph.num_edges, width):
        raise ArgumentError(
            "edge_attr",
            expected=f"shape [{graph.num_edges}, {width}] (edges, features per edge), "
            "a dense tensor in floating point",
            got=describe(edge_attr),
            remedy="build the model with edge_width=edge_attr.shape[-1], pass features of the "
            "edges of this graph, or convert integers with .float()",
        )
    check_type("edge_attr", edge_attr, like)


def given_or_ones(
    edge_attr: Tensor | None, graph: Graph, width: int, like: Tensor, *, batched: bool = False
) -> Tensor:
    """Return edge features, checked by :func:`check_edge_attr`; ones if they are None."""
    check_edge_attr(edge_attr, graph, width, like, batched=batched)
    if edge_attr is not None:
        return edge_attr
    return torch.ones(graph.num_edges, width, dtype=like.dtype, device=like.device)


def refuse_edge_attr(edge_attr: Tensor | None) -> None:
    """Raise ArgumentError if edge features are given."""
    if edge_attr is not None:
        raise ArgumentError(
            "edge_attr",
            expected="None, because this model uses no edge features",
            got=describe(edge_attr),
            remedy="use graph_transformer for edge weights, or edge_transformer, "
            "molecule_transformer or graph_network for edge features",
        )
