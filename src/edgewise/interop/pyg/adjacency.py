"""Cached graphs of PyG's ``edge_index``, ``EdgeIndex`` and sparse matrices.

A graph, with its layouts and self-loops, is cached while the tensor exists and is not changed in
place. Changes through ``.data``, NumPy or the index tensors that a sparse matrix was built from are
not noticed. The entries of a sparse matrix are read in each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary
from torch_geometric import EdgeIndex
from torch_geometric.utils import (
    add_self_loops,
    is_torch_sparse_tensor,
    to_edge_index,
    to_torch_coo_tensor,
    to_torch_csr_tensor,
)

from edgewise._utils.arguments import check_type, describe
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError
from edgewise._utils.torch_internals import version_of
from edgewise.graphs import Edges, Graph, edges
from edgewise.graphs.graph import edge_keys

T = TypeVar("T")
Size = tuple[int | None, int | None] | None
Fill = float | Tensor | str
_graphs = WeakIdKeyDictionary()


class EdgeShapeError(ArgumentError):
    """Error: an edge tensor has another shape than one row for each edge, of the layer's width."""


def graph_of(
    adjacency: Tensor, source: Tensor, target: Tensor | None, size: Size, forwards: bool
) -> Graph:
    """Return the graph from the nodes ``source`` to ``target``; if None, ``size`` gives the number
    of targets. With ``forwards``, they are in the second row of ``edge_index``.
    """
    stated_sources, stated_targets = _stated_size(adjacency, size, forwards)
    num_sources = _check_size(stated_sources, source.shape[-2])
    num_targets = stated_targets if stated_targets is not None else num_sources
    if target is not None:
        num_targets = _check_size(stated_targets, target.shape[-2])

    def make() -> Graph:
        index = edge_index_of(adjacency)
        return edges(index if forwards else index.flip(0), (num_sources, num_targets))

    return cached_for(adjacency, (num_sources, num_targets, forwards), make)


def coalesced(adjacency: Any) -> Any:
    """Return a COO matrix, or those in a dict, with duplicate entries summed; else the argument."""
    # Not cached, because the tensor that a matrix was built from shares its entries, not its
    # version.
    if isinstance(adjacency, Tensor) and adjacency.layout is torch.sparse_coo:
        return adjacency.coalesce()
    if isinstance(adjacency, dict):
        return {name: coalesced(value) for name, value in adjacency.items()}
    return adjacency


def edge_index_of(adjacency: Tensor) -> Tensor:
    """Return the edges ``[2, E]`` as a plain tensor that does not keep ``adjacency`` alive."""
    if adjacency.layout is torch.sparse_coo:
        matrix_index: Tensor = coalesced(adjacency).indices().detach()
        return matrix_index.flip(0)
    if is_torch_sparse_tensor(adjacency):
        matrix_index = to_edge_index(adjacency)[0]
        return matrix_index.flip(0)
    plain: Tensor = adjacency.as_tensor() if isinstance(adjacency, EdgeIndex) else adjacency
    return plain.detach()


def edge_weights(adjacency: Tensor, weight: Tensor | None, like: Tensor) -> Tensor | None:
    """Return the weights ``[E]`` of a sparse matrix or ``weight``, in the dtype of ``like``."""
    values, num_edges = _values_of(adjacency)
    argument = "edge_weight"
    if weight is not None:
        if isinstance(weight, Tensor) and weight.shape == (num_edges, 1):
            weight = weight[:, 0]
        check_one_per_edge(argument, weight, num_edges)
    if values is not None:
        argument, weight = "values of the sparse matrix", values
        check_one_per_edge(argument, weight, num_edges)
    if weight is not None:
        check_type(argument, weight, like)
    return weight


def check_one_per_edge(argument: str, numbers: Any, num_edges: int) -> None:
    """Raise EdgeShapeError unless ``numbers`` is a tensor with one number for each edge."""
    if not isinstance(numbers, Tensor) or numbers.shape != (num_edges,):
        raise EdgeShapeError(
            argument,
            expected=f"one number per edge, shape [{num_edges}]",
            got=describe(numbers),
            remedy="pass one number for each column of edge_index, in its order",
        )


def edge_features(
    adjacency: Tensor, features: Tensor | None, width: int | None, *, vector: bool = False
) -> Tensor | None:
    """Return edge features ``[E, width]``: ``features``, or the entries of a sparse matrix."""
    values, num_edges = _values_of(adjacency)
    if features is None:
        if values is None or values.dim() == 1:
            return None
        features = values
    elif adjacency.layout is torch.sparse_coo and not adjacency.is_coalesced():
        raise ArgumentError(
            "edge_index",
            expected="a coalesced matrix, whose entries are in the order of edge_attr",
            got="an uncoalesced matrix",
            remedy="pass edge_index.coalesce(), with one row of edge_attr for each of its entries",
        )
    error: type[ArgumentError] = EdgeShapeError
    if isinstance(features, Tensor):
        table = features[:, None] if vector and features.dim() == 1 else features
        shape = (num_edges, table.shape[-1:].numel() if width is None else width)
        if table.shape == shape and table.is_floating_point() and table.layout is torch.strided:
            return table
        if table.dim() > 1 and (len(table), table.shape[-1]) == shape:
            error = ArgumentError  # Another dtype, layout or number of axes, which PyG may support.
    raise error(
        "edge_attr",
        expected=f"features [{num_edges}, {'F' if width is None else width}] in floating point",
        got=describe(features),
        remedy="pass one row for each column of edge_index, in its order, and convert integers "
        "with .float()",
    )


def _values_of(adjacency: Tensor) -> tuple[Tensor | None, int]:
    """Return the entries ``[E, ...]`` of a sparse matrix (None for other types), and E."""
    if not is_torch_sparse_tensor(adjacency):
        return None, adjacency.shape[1]
    values = coalesced(adjacency).values()
    return values, len(values)


def fresh_loops(graph: Graph) -> tuple[Graph, Tensor, Tensor]:
    """Replace self-loops by one per node, at the end; also return the other edges and old loops."""

    def make() -> tuple[Graph, Tensor, Tensor]:
        is_loop = graph.source == graph.target
        others, loops = (~is_loop).nonzero()[:, 0], is_loop.nonzero()[:, 0]
        # In a bipartite graph, PyG's self-loops join target i with source i.
        node = torch.arange(min(graph.num_targets, graph.num_sources), device=graph.device)
        index = torch.cat([graph.edge_index[:, others], node.expand(2, -1)], dim=1)
        return Edges(index, graph.num_targets, graph.num_sources), others, loops

    return graph.cached("pyg_loops", make)


def looped_features(graph: Graph, features: Tensor, fill: Fill, forwards: bool) -> Tensor:
    """Return the edge features, with ``fill`` for the new self-loops; a reduction such as "mean" is
    over the edges with the node in the second row of ``edge_index``, as in PyG.
    """
    looped, others, _ = fresh_loops(graph)

    def make() -> Tensor:
        index = looped.edge_index[:, : others.numel()]
        index = index if forwards else index.flip(0)
        loopless = features if others.numel() == len(features) else features[others]
        # Fill for all nodes, then cut: PyG fails if an edge enters a node without self-loop.
        nodes = max(graph.num_targets, graph.num_sources)
        joined: Tensor = add_self_loops(index, loopless, fill_value=fill, num_nodes=nodes)[1]
        return joined[: looped.num_edges]

    if features.requires_grad or isinstance(fill, Tensor):
        return make()
    return cached_for(features, ("looped", looped, fill, forwards), make)


def sparse_like(adjacency: Tensor, graph: Graph, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return edge values as a sparse matrix with the layout and order of edges of ``adjacency``."""
    order = edge_keys(graph).argsort(stable=True)
    index, sorted_values = graph.edge_index.flip(0)[:, order], values[order]
    size = (graph.num_targets, graph.num_sources)
    make = to_torch_coo_tensor if adjacency.layout == torch.sparse_coo else to_torch_csr_tensor
    return make(index, sorted_values, size, is_coalesced=True), sorted_values


def _stated_size(adjacency: Tensor, size: Size, forwards: bool) -> tuple[int | None, int | None]:
    """Return the numbers of source and target nodes, or None for those that x determines."""
    is_matrix = is_torch_sparse_tensor(adjacency)
    if not is_matrix and not (isinstance(adjacency, Tensor) and adjacency.layout is torch.strided):
        raise ArgumentError(
            "edge_index",
            expected="a [2, E] tensor, an EdgeIndex or a torch.sparse matrix (COO, CSR or CSC)",
            got=describe(adjacency),
            remedy="convert a torch_sparse.SparseTensor with .to_torch_sparse_csr_tensor()",
        )
    if is_matrix:
        if not forwards:
            raise ArgumentError(
                "edge_index",
                expected="a [2, E] tensor or an EdgeIndex if flow is 'target_to_source'",
                got="a sparse matrix, which defines the direction itself",
                remedy="transpose the matrix and use the default flow, 'source_to_target'",
            )
        return adjacency.shape[1], adjacency.shape[0]
    if isinstance(adjacency, EdgeIndex):
        rows, columns = adjacency.sparse_size()
        return (rows, columns) if forwards else (columns, rows)
    if size is None:
        return None, None
    pair = isinstance(size, (tuple, list)) and len(size) == 2
    if not pair or not all(number is None or isinstance(number, int) for number in size):
        raise ArgumentError(
            "size",
            expected="(num_sources, num_targets)",
            got=repr(size),
            remedy="pass two integers, or None for the number of rows of x",
        )
    return size[0], size[1]


def _check_size(stated: int | None, counted: int) -> int:
    if stated is not None and stated != counted:
        raise ArgumentError(
            "size",
            expected=f"{counted}, the number of rows of the features",
            got=str(stated),
            remedy="change size (or the matrix, or EdgeIndex.sparse_size) to match x",
        )
    return counted


def cached_for(tensor: Tensor, key: object, make: Callable[[], T]) -> T:
    """Return ``make()``, cached for this tensor until it is changed in place."""
    # During tracing, tensors cannot be keys of a cache.
    if torch.compiler.is_compiling():
        return make()
    # An inference tensor has no version counter, so a change in place could not be detected.
    if tensor.is_inference():
        return make()
    version, results = _graphs.get(tensor, (None, {}))
    if version != (current := version_of(tensor)):
        version, results = current, {}
        _graphs[tensor] = version, results
    if key not in results:
        # Cached tensors must not be inference, meta or fake tensors, because later calls under
        # other PyTorch modes use them.
        with disable_modes(tensor.device):
            results[key] = make()
    result: T = results[key]
    return result
