"""Graphs from explicit edge lists."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range, describe
from edgewise._utils.dispatch_modes import detach_from_inference, disable_modes
from edgewise._utils.errors import ArgumentError, counted
from edgewise.graphs.graph import OPERATIONS, Graph


class Edges(Graph):
    """Graph of a ``[2, E]`` edge list, which is not checked.

    Call :func:`edges` to create such a graph with checks of the indices.
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_targets: int,
        num_sources: int,
        segments: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__(num_targets, num_sources, edge_index.device)
        self._edge_index = detach_from_inference(edge_index)
        self.segments = segments

    @property
    def edge_index(self) -> Tensor:
        return self._edge_index

    @property
    def num_edges(self) -> int:
        return self._edge_index.shape[1]

    @property
    def has_duplicates(self) -> bool:
        if not self.is_numbered:
            return True  # A meta tensor has no values, so there may be duplicates.
        return self._keys().numel() < self.num_edges

    def contains(self, source: Tensor, target: Tensor) -> Tensor:
        keys, wanted = self._keys(), target * self.num_sources + source
        if not keys.numel():
            return torch.zeros_like(wanted, dtype=torch.bool)
        index = torch.searchsorted(keys, wanted).clamp_(max=keys.numel() - 1)
        found: Tensor = keys[index].eq(wanted)
        return found

    def unique(self) -> Edges:
        """Return the graph without duplicate edges; edges are sorted by target, then by source."""
        return self.cached("unique", lambda: edges_of_keys(self._keys(), self))

    def with_self_loops(self) -> Graph:
        """Append self-loops for the nodes that have none; existing edges keep their order."""
        return self.cached("with_self_loops", self._append_loops)

    def without_self_loops(self) -> Graph:
        """Remove self-loops; the remaining edges keep their order, including duplicates."""
        ahead = self._sources_ahead(self.num_targets, self.num_sources)

        def make() -> Graph:
            kept = self._edge_index[:, self.source != self.target + ahead]
            return Edges(kept, self.num_targets, self.num_sources, self.segments)

        return self.cached("without_self_loops", make)

    def _append_loops(self) -> Graph:
        ahead = self._sources_ahead(self.num_targets, self.num_sources)
        node = torch.arange(self.num_targets, device=self.device)
        loops = torch.stack([node + ahead, node])
        joined = torch.cat([self._edge_index, loops[:, ~self.contains(*loops)]], dim=1)
        square = self.segments is not None and torch.equal(*self.segments)
        segments = self.segments if square else None
        return Edges(joined, self.num_targets, self.num_sources, segments)

    def _keys(self) -> Tensor:
        """Return sorted distinct integers ``target * num_sources + source``, one for each edge."""
        return self.derived(_unique_keys)

    def _moved(self, device: torch.device) -> Graph:
        if self._edge_index.is_meta:
            raise ArgumentError(
                "graph",
                expected=f"a graph whose edges can be copied to {device}",
                got='a graph on torch.device("meta"), which has no data',
                remedy="create the graph outside of `with torch.device('meta')`, or from a tensor"
                " on another device",
            )
        segments = self.segments
        moved = (segments[0].to(device), segments[1].to(device)) if segments else None
        return Edges(self._edge_index.to(device), self.num_targets, self.num_sources, moved)


def _unique_keys(graph: Graph) -> Tensor:
    keys: Tensor = torch.unique(graph.target * graph.num_sources + graph.source)
    return keys


def edges_of_keys(keys: Tensor, like: Graph) -> Edges:
    """Return the graph whose edges are encoded as integers ``target * num_sources + source``.

    Args:
        keys: sorted integers, ``[E]``.
        like: graph with the same numbers of nodes and the same batch sizes (``segments``).
    """
    width = max(like.num_sources, 1)
    pairs = torch.stack([keys % width, torch.div(keys, width, rounding_mode="floor")])
    return Edges(pairs, like.num_targets, like.num_sources, like.segments)


def edges(edge_index: Tensor, num_nodes: int | tuple[int, int]) -> Edges:
    """Return the graph of an edge list; the order of the edges and duplicates are kept.

    The edges are copied, so later in-place changes of ``edge_index`` do not change the graph.

    Args:
        edge_index: integers ``[2, E]`` with sources in row 0 and targets in row 1, or PyTorch
            Geometric's ``EdgeIndex``.
        num_nodes: number of nodes, or ``(num_sources, num_targets)`` for a bipartite graph.

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
    ends = ("source", num_sources), ("target", num_targets)
    outside = [(x < 0) | (x >= count) for x, (_, count) in zip(edge_index, ends, strict=True)]
    # One combined check, because each check waits for the GPU.
    if not (outside[0] | outside[1]).any():
        return
    for row, (what, count) in enumerate(ends):
        if outside[row].any():
            edge = int(outside[row].nonzero()[0])
            raise ArgumentError(
                "edge_index",
                expected=f"{what}s from 0 to {count - 1} ({counted(count, 'node')})",
                got=f"{what} {int(edge_index[row, edge])} at edge {edge}",
                remedy="number the nodes from 0, or pass a larger num_nodes",
            )


OPERATIONS.update(edges=Edges)
