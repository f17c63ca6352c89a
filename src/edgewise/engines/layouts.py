"""The forms in which an engine may ask for a graph. Engines know these and never a graph itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


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


Layout = EdgeLayout | DenseLayout
