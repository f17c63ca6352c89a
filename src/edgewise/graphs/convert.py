"""Graphs from edge lists, masks and graphs of other libraries, which are not imported."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range, describe
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError, counted
from edgewise.graphs.graph import Edges, Graph, check_graph


def check_sized(graph: Any, argument: str = "graph") -> Graph:
    """Return the argument if it is a :class:`Graph`, which has a fixed number of nodes.

    Raises:
        ArgumentError: the argument is a pattern without sizes, or neither a graph nor a pattern.
    """
    if isinstance(graph, Graph):
        return graph
    pattern = check_graph(graph, argument)
    raise ArgumentError(
        argument,
        expected="a graph with a fixed number of nodes",
        got=f"the pattern {pattern!r}",
        remedy=pattern._sized_remedy,
    )


def check_square(graph: Any, remedy: str) -> Graph:
    """Return the argument if it is a graph with as many targets as sources; else raise an error.

    The message ends with ``remedy``.
    """
    sized = check_sized(graph)
    if sized.num_targets != sized.num_sources:
        raise ArgumentError(
            "graph", expected="as many targets as sources", got=repr(graph), remedy=remedy
        )
    return sized


def edges(edge_index: Tensor, num_nodes: int | tuple[int, int]) -> Edges:
    """Return the graph of an edge list, copied; the order of the edges and duplicates are kept.

    Args:
        edge_index: integers ``[2, E]``, sources in row 0 and targets in row 1, or PyG's
            ``EdgeIndex``.
        num_nodes: number of nodes, or ``(num_sources, num_targets)`` of a bipartite graph.

    Raises:
        ArgumentError: ``edge_index`` is not a ``[2, E]`` tensor of integers, or an index is out of
            range.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> graph = graphs.edges(torch.tensor([[0, 1, 2], [1, 1, 0]]), 3)
        >>> graph.in_degree()
        tensor([1, 2, 0])
    """
    num_sources, num_targets = num_nodes if isinstance(num_nodes, tuple) else (num_nodes, num_nodes)
    for number in (num_sources, num_targets):
        check_range(
            "num_nodes", number, "pass n, or (num_sources, num_targets)", least=0, integer=True
        )
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.shape[0] != 2:
        raise ArgumentError(
            "edge_index",
            expected="a tensor of shape [2, E]",
            got=describe(edge_index),
            remedy="put the sources in row 0 and the targets in row 1 (transpose an [E, 2] list)",
        )
    if edge_index.dtype.is_floating_point or edge_index.dtype in (torch.bool, torch.complex64):
        raise ArgumentError(
            "edge_index",
            expected="integers",
            got=str(edge_index.dtype),
            remedy="cast edge_index with .long(), or use graphs.from_dense for a boolean matrix",
        )
    # Convert an EdgeIndex of PyTorch Geometric to a plain tensor.
    if hasattr(edge_index, "as_tensor"):
        edge_index = edge_index.as_tensor()
    with disable_modes():
        edge_index = edge_index.to(torch.long, copy=True)
        if not edge_index.is_meta and not torch.compiler.is_compiling():
            _check_range(edge_index, num_targets, num_sources)
    return Edges(edge_index, num_targets, num_sources)


def _check_range(edge_index: Tensor, num_targets: int, num_sources: int) -> None:
    counts = num_sources, num_targets
    outside = torch.stack([(x < 0) | (x >= n) for x, n in zip(edge_index, counts, strict=True)])
    if not outside.any():
        return
    row, edge = outside.nonzero()[0].tolist()
    end, count = ("source", "target")[row], counts[row]
    raise ArgumentError(
        "edge_index",
        expected=f"{end}s from 0 to {count - 1} ({counted(count, 'node')})",
        got=f"{end} {int(edge_index[row, edge])} at edge {edge}",
        remedy="number the nodes from 0, or pass a larger num_nodes",
    )


def from_dense(matrix: Tensor) -> Edges:
    """Return the graph of a boolean attention mask ``[num_targets, num_sources]``, copied.

    True is an edge; the inverse is ``graph.dense()``. For a weighted adjacency matrix, pass
    ``matrix != 0``, and its nonzero values as ``weight``, ``gain`` or ``bias`` of the call.

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
        edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    return edges(edge_index, len(number))
