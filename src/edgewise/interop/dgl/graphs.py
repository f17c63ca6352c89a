"""Graphs of Edgewise from those of DGL, and checks of a layer's graph and features."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Edges, Graph, Pattern
from edgewise.graphs.graph import bind_graph

Features = Tensor | tuple[Tensor, Tensor]
_graphs = WeakIdKeyDictionary()


def from_dgl(graph: Any) -> Graph:
    """Return the graph of a ``DGLGraph`` or block, with its edges in the order of their ids.

    It is made again only if the edges have changed. Any object with ``edges()`` and ``num_nodes()``
    is accepted.

    Raises:
        ArgumentError: ``graph`` has several edge types, or is no graph.

    Example:
        >>> import torch
        >>> from edgewise.interop.dgl import from_dgl
        >>> class Ring:  # as dgl.graph(([0, 1, 2], [1, 2, 0]))
        ...     def num_nodes(self):
        ...         return 3
        ...
        ...     def edges(self):
        ...         return torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])
        >>> from_dgl(Ring()).edge_index.tolist()
        [[0, 1, 2], [1, 2, 0]]
    """
    types = getattr(graph, "canonical_etypes", [()])
    if len(types) != 1:
        raise ArgumentError(
            "graph",
            expected="a graph with one edge type",
            got=f"{len(types)} types: {', '.join(map(str, types))}",
            remedy="call one layer for each graph[edge_type], or dgl.to_homogeneous(graph)",
        )
    if not callable(getattr(graph, "edges", None)) or not hasattr(graph, "num_nodes"):
        raise ArgumentError(
            "graph",
            expected="a graph of Edgewise, or a DGLGraph",
            got=describe(graph),
            remedy="create one with edgewise.graphs.edges(edge_index, num_nodes)",
        )
    index = torch.stack(graph.edges()[:2]).long()
    num_targets, num_sources = (
        int(getattr(graph, name, graph.num_nodes)()) for name in ("num_dst_nodes", "num_src_nodes")
    )
    sizes = num_targets, num_sources
    known_sizes, result = _graphs.get(graph, (None, None))
    if result is None or known_sizes != sizes or not torch.equal(result.edge_index, index):
        result = Edges(index, num_targets, num_sources)
        _graphs[graph] = sizes, result
    return cast("Graph", result)


def graph_and_features(
    graph: Any, feat: Features, *, allow_zero_in_degree: bool = True
) -> tuple[Graph, Tensor, Tensor]:
    """Return the graph, and the features ``[N, *, F]`` of sources and of targets.

    With one tensor, the targets are the first sources, as in DGL's blocks.

    Raises:
        ArgumentError: the features have the wrong number of rows, or a target has no source.
    """
    pair = feat if isinstance(feat, tuple) else (feat, feat)
    for features in pair:
        is_float = isinstance(features, Tensor) and features.is_floating_point()
        if len(pair) != 2 or not is_float or features.dim() < 2:
            raise ArgumentError(
                "feat",
                expected="features [N, ..., F] in floating point, or a pair: those of sources and "
                "those of targets",
                got=", ".join(map(describe, pair)),
                remedy="convert the features to a tensor with one row per node",
            )
    source, target = pair
    if isinstance(graph, Pattern) and not isinstance(graph, Graph):
        graph = graph.bind(len(target), len(source))
    elif not isinstance(graph, Graph):
        graph = from_dgl(graph)
    if not isinstance(feat, tuple):
        target = target[: graph.num_targets]
    for name, features, count in (
        ("sources", source, graph.num_sources),
        ("targets", target, graph.num_targets),
    ):
        if len(features) != count:
            raise ArgumentError(
                "feat",
                expected=f"{count} rows, one for each of the graph's {name}",
                got=str(len(features)),
                remedy="pass the features of all nodes of the graph, or another graph",
            )
    graph = bind_graph(graph, len(target), len(source), source.device)
    if not allow_zero_in_degree and graph.cached("has_empty", lambda: _has_empty(graph)):
        raise ArgumentError(
            "graph",
            expected="an edge to each node",
            got="nodes without incoming edges, whose output would be zero",
            remedy="pass graph.with_self_loops(), or build the layer with "
            "allow_zero_in_degree=True",
        )
    return graph, source, target


def _has_empty(graph: Graph) -> bool:
    return bool((graph.in_degree() == 0).any())


def per_edge(argument: str, values: Tensor, graph: Graph) -> Tensor:
    """Return numbers ``[E]`` or ``[E, 1]`` as ``[E, 1]``; raise ArgumentError for other shapes."""
    if not isinstance(values, Tensor) or values.shape not in (
        (graph.num_edges,),
        (graph.num_edges, 1),
    ):
        raise ArgumentError(
            argument,
            expected=f"one number per edge, shape [{graph.num_edges}]",
            got=describe(values),
            remedy="pass one number for each edge, in the order of the graph's edges",
        )
    return values.reshape(-1, 1)
