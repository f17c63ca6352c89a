"""The forms in which an engine may ask for a graph. Engines know these and never a graph itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from torch import Tensor

from edgewise.engines.csr import sort_edges


@dataclass(frozen=True, eq=False)
class EdgeLayout:
    """One source and one target an edge, ``[E]`` each, in the order of the edge tensors."""

    source: Tensor
    target: Tensor
    num_targets: int
    num_sources: int


@dataclass(frozen=True, eq=False)
class DenseLayout:
    """``blocks`` blocks of ``rows × columns`` pairs; one block is the whole matrix.

    Attributes:
        row_node, column_node: ``[blocks, rows]`` and ``[blocks, columns]``, the node in each place
            of a ragged batch (0 where there is none); ``None`` where the places, one block after
            the other, are the nodes.
        node_row: ``[num_targets]``, the place ``block * rows + row`` of each target, where
            ``row_node`` is given.
        mask: boolean, broadcasts to ``[blocks, rows, columns]``; ``None`` if all pairs are edges.
        causal: the mask would be the lower triangle, and is not made.
        slot: ``[E]``, place ``(block * rows + row) * columns + column`` of each edge; ``None``
            where edge e is in place e.
        list_edges: gives the edges one by one, for what a matrix cannot do.

    """

    blocks: int
    rows: int
    columns: int
    row_node: Tensor | None
    column_node: Tensor | None
    node_row: Tensor | None
    mask: Tensor | None
    causal: bool
    slot: Tensor | None
    list_edges: Callable[[], EdgeLayout]

    @property
    def full(self) -> bool:
        """Whether every pair is an edge, so that nothing can cross where there is none."""
        return self.mask is None and not self.causal

    @cached_property
    def edges(self) -> EdgeLayout:
        """The same graph, edge by edge."""
        return self.list_edges()

    @property
    def places(self) -> int:
        """How many pairs there are, edges or not."""
        return self.blocks * self.rows * self.columns


class RowsLayout:
    """The edges sorted by target, and (made when first asked for) sorted by source.

    Each side is ``(pointer [rows + 1], column [E], edge [E])`` of int32: row i has the places
    ``pointer[i]`` to ``pointer[i + 1]``; ``column`` is the node at the other end, ``edge`` the
    number of the edge in the caller's order.
    """

    def __init__(self, source: Tensor, target: Tensor, num_targets: int, num_sources: int) -> None:
        self.num_targets, self.num_sources, self.num_edges = num_targets, num_sources, len(source)
        self._source, self._target = source, target
        self.by_target = sort_edges(target, source, num_targets, num_sources)

    @cached_property
    def by_source(self) -> tuple[Tensor, ...]:
        """For gradients of keys and values."""
        return sort_edges(self._source, self._target, self.num_sources, self.num_targets)


@dataclass(frozen=True, eq=False)
class TilesLayout:
    """Targets that each read one run of neighbouring sources, ``start`` to ``stop``.

    Attributes:
        start, stop: ``[num_targets]``, int32; ``start >= stop`` where nothing is read.
        edge: ``[num_targets]``, int64, the number of each target's first edge.
        block: ``[blocks + 1]``, int32: the targets in blocks of at most ``BLOCK``, none of which
            goes beyond its unit.
        unit: ``[units + 1, 2]``, int32: first block and first source of each unit, a range of
            targets and the range of sources that they alone read.

    """

    BLOCK: ClassVar[int] = 64

    start: Tensor
    stop: Tensor
    edge: Tensor
    block: Tensor
    unit: Tensor

    @cached_property
    def tensors(self) -> list[Tensor]:
        """All of them, in the order of the attributes."""
        return [self.start, self.stop, self.edge, self.block, self.unit]


Layout = EdgeLayout | DenseLayout | RowsLayout | TilesLayout
