"""Runs of sources in blocks of targets: what the tiles kernels read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from edgewise.engines.native.operator import Members


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
        pairs: how many pairs of a target and a source there are, to choose threads by.
        members: what the operator remembers of calls on these targets, by their kind.

    """

    BLOCK: ClassVar[int] = 64

    start: Tensor
    stop: Tensor
    edge: Tensor
    block: Tensor
    unit: Tensor
    pairs: int
    members: dict[Any, Members] = field(default_factory=dict, repr=False)

    @property
    def tensors(self) -> list[Tensor]:
        """Its tensors, in the order of the attributes."""
        return [self.start, self.stop, self.edge, self.block, self.unit]

    def __reduce__(self) -> tuple[type[TilesLayout], tuple[Any, ...]]:
        """A copy, or one in another process, remembers no addresses of this one.

        Sending a tensor to a process moves it into shared memory; those here stay where they are.
        """
        return TilesLayout, (*[x.clone() for x in self.tensors], self.pairs)
