"""The forms in which an engine may ask for a graph. Engines know these and never a graph itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from edgewise.engines.csr import sort_edges
from edgewise.modes import while_tracing


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
        self._by_source: tuple[Tensor, ...] | None = None

    @property
    def by_source(self) -> tuple[Tensor, ...]:
        """For gradients of keys and values."""
        if not _sorts_by_source(self) or self._by_source is None:
            return self._sorted_by_source()
        return self._by_source

    def _sorted_by_source(self) -> tuple[Tensor, ...]:
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

    @property
    def tensors(self) -> list[Tensor]:
        """All of them, in the order of the attributes."""
        return [self.start, self.stop, self.edge, self.block, self.unit]


@while_tracing
def _sorts_by_source(layout: RowsLayout) -> bool:
    """Sort, and keep it; not where compiled code itself makes the layout, which has no numbers."""
    if "_by_source" not in vars(layout):
        return False
    if layout._by_source is None:
        layout._by_source = layout._sorted_by_source()
    return True


Layout = EdgeLayout | DenseLayout | RowsLayout | TilesLayout
