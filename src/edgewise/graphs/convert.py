"""Conversion from masks and from graphs of other libraries, without importing these libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.arguments import describe
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError
from edgewise.graphs.edges import Edges, edges
from edgewise.graphs.graph import Graph, Pattern


def check_graph(graph: Any, argument: str = "graph") -> Pattern:
    """Return the argument if it is a graph or a pattern.

    Raises:
        ArgumentError: the argument is neither a graph nor a pattern. If it can be converted (such
            as a mask, an edge list or a NetworkX graph), the message names the function for this.
    """
    if isinstance(graph, Pattern):
        return graph
    got, remedy = _described(graph)
    raise ArgumentError(argument, expected="a graph or a pattern", got=got, remedy=remedy)


def check_sized(graph: Any, argument: str = "graph") -> Graph:
    """Return the argument if it is a :class:`Graph`, which has a fixed number of nodes.

    Raises:
        ArgumentError: the argument is a pattern without sizes, or neither a graph nor a pattern.
    """
    if isinstance(graph, Graph):
        return graph
    raise ArgumentError(
        argument,
        expected="a graph with a fixed number of nodes",
        got=f"the pattern {check_graph(graph, argument)!r}",
        remedy="call .bind(num_nodes) on the pattern",
    )


def common_device(graphs: Sequence[Graph]) -> torch.device:
    """Return the device of all these graphs, or the CPU if the list is empty.

    Raises:
        ArgumentError: the graphs are on different devices.
    """
    devices = list(dict.fromkeys(graph.device for graph in graphs))
    if len(devices) > 1:
        raise ArgumentError(
            "graph",
            expected="graphs on one device",
            got=" and ".join(map(str, devices)),
            remedy="move the graphs to one device with .to(device)",
        )
    return devices[0] if devices else torch.device("cpu")


def check_square(graph: Any, remedy: str) -> Graph:
    """Return the argument if it is a graph with as many targets as sources.

    Raises:
        ArgumentError: the graph has different numbers of targets and sources (the message ends
            with ``remedy``), or the argument is not a :class:`Graph`.
    """
    sized = check_sized(graph)
    if sized.num_targets != sized.num_sources:
        raise ArgumentError(
            "graph", expected="as many targets as sources", got=repr(graph), remedy=remedy
        )
    return sized


def _described(thing: Any) -> tuple[str, str]:
    """Return a description of a value that is not a graph, and how to convert it to a graph."""
    name = type(thing).__name__
    if isinstance(thing, type) and issubclass(thing, Pattern):
        return f"the class {thing.__name__}", f"call it: graphs.{thing.__name__.lower()}(...)"
    if isinstance(thing, str):
        return repr(thing), "read it with graphs.parse(text)"
    if hasattr(thing, "sparse_size") or hasattr(thing, "edge_index"):
        return f"a {name} of PyTorch Geometric", "use graphs.from_pyg(data)"
    if hasattr(thing, "tocoo"):
        return (
            f"a sparse {name}",
            "use graphs.from_scipy(matrix); row i has the sources of target i",
        )
    if hasattr(thing, "is_directed"):
        return f"a {name}", "use graphs.from_networkx(graph)"
    if not isinstance(thing, Tensor):
        return name, "name a pattern such as graphs.causal(), or use graphs.edges(edge_index, n)"
    got = f"a Tensor of {thing.dtype} and shape {list(thing.shape)}"
    two_rows = thing.dim() == 2 and len(thing) == 2 and thing.dtype != torch.bool
    if two_rows and (thing.shape[1] != 2 or not thing.dtype.is_floating_point):
        return got, "wrap explicit edges with graphs.edges(edge_index, num_nodes)"
    if thing.dtype == torch.bool:
        return (
            got,
            "use graphs.from_dense(mask) for a mask [num_targets, num_sources]; True is an edge",
        )
    return got, (
        "use graphs.from_dense(mask == 0) for an additive mask [num_targets, num_sources], or"
        " graphs.from_dense(matrix != 0) for an adjacency; pass other numbers as bias="
    )


def from_dense(matrix: Tensor) -> Edges:
    """Return the graph of a boolean attention mask ``[num_targets, num_sources]``.

    True is an edge. The inverse is ``graph.dense()``. For a weighted adjacency matrix, pass
    ``matrix != 0`` here, and its nonzero values as ``weight``, ``gain`` or ``bias`` of the call.
    Later changes of the mask do not change the graph.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> graphs.from_dense(torch.tensor([[True, False], [True, True]])).edge_index
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    if not isinstance(matrix, Tensor) or matrix.dtype != torch.bool or matrix.dim() != 2:
        raise ArgumentError(
            "matrix",
            expected="a boolean tensor [num_targets, num_sources]",
            got=describe(matrix),
            remedy="pass matrix != 0; rows are targets",
        )
    with disable_modes():
        pairs = matrix.nonzero().T.flip(0).contiguous()
    return Edges(pairs, matrix.shape[0], matrix.shape[1])


def from_pyg(data: Any) -> Edges:
    """Return the graph of PyTorch Geometric's ``Data`` or ``EdgeIndex``, with the same edge order.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from edgewise import graphs
        >>> data = Data(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]))
        >>> graphs.from_pyg(data)
        <edges: 3 nodes, 2 edges>
    """
    # The tensor is an EdgeIndex, whose sparse_size is (sources, targets).
    if isinstance(data, Tensor):
        size: Any = data.sparse_size() if hasattr(data, "sparse_size") else (None, None)
        if None in size:
            raise ArgumentError(
                "data",
                expected="an EdgeIndex whose sparse_size is known",
                got=f"sparse_size {tuple(size)}",
                remedy="use graphs.edges(edge_index, num_nodes)",
            )
        return edges(data, (int(size[0]), int(size[1])))
    if getattr(data, "edge_index", None) is None or data.num_nodes is None:
        raise ArgumentError(
            "data",
            expected="a Data with edge_index and num_nodes",
            got=type(data).__name__,
            remedy="use graphs.edges(edge_index, num_nodes)",
        )
    return edges(data.edge_index, int(data.num_nodes))


def from_scipy(matrix: Any) -> Edges:
    """Return the graph of a SciPy sparse matrix ``[num_targets, num_sources]``.

    Each stored entry is an edge. Rows are targets, as in ``graph.dense()``; pass ``matrix.T`` if
    rows are sources.

    Example:
        >>> import scipy.sparse
        >>> from edgewise import graphs
        >>> graphs.from_scipy(scipy.sparse.eye(3)).edge_index
        tensor([[0, 1, 2],
                [0, 1, 2]])
    """
    if not hasattr(matrix, "tocoo"):
        raise ArgumentError(
            "matrix",
            expected="a SciPy sparse matrix or array",
            got=type(matrix).__name__,
            remedy="wrap the matrix with scipy.sparse.coo_array, or use graphs.from_dense",
        )
    coo = matrix.tocoo()
    with disable_modes():
        # astype copies, because the matrix may be read-only, which tensors do not support.
        pairs = torch.stack([torch.as_tensor(ends.astype("int64")) for ends in (coo.col, coo.row)])
    return edges(pairs, (int(matrix.shape[1]), int(matrix.shape[0])))


def from_networkx(graph: Any) -> Edges:
    """Return the graph of a NetworkX graph; an edge from u to v has source u and target v.

    Nodes are numbered in the order of ``graph.nodes``. An undirected edge becomes two edges.
    Parallel edges of a multigraph are kept.

    Example:
        >>> import networkx
        >>> from edgewise import graphs
        >>> graphs.from_networkx(networkx.DiGraph([(0, 1), (1, 2)])).edge_index
        tensor([[0, 1],
                [1, 2]])
    """
    if not hasattr(graph, "is_directed"):
        raise ArgumentError(
            "graph",
            expected="a NetworkX graph",
            got=type(graph).__name__,
            remedy="use graphs.edges(edge_index, num_nodes)",
        )
    number = {node: index for index, node in enumerate(graph.nodes)}
    pairs = [(number[u], number[v]) for u, v in graph.edges()]
    if not graph.is_directed():
        pairs += [(v, u) for u, v in pairs if u != v]
    with disable_modes():
        listed = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    return edges(listed, len(number))
