"""Batches in an order that (seed, epoch) alone decides, so that a run can be continued exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from edgewise.data.batch import Batch


class Loader:
    """The batches of one split, for data that fit in memory.

    Args:
        make: the batch of these examples, given as an index ``[B]``.
        count: how many examples there are.
        size: examples in a batch; the last one may be smaller.
        seed: shuffles, differently in every epoch; ``None`` keeps the order.

    Lightning tells the epoch to what a loader calls its ``sampler``, and saves and restores its
    ``state_dict()``: how many batches of the epoch have been served.

    """

    def __init__(
        self, make: Callable[[Tensor], Batch], count: int, size: int, seed: int | None = None
    ) -> None:
        self.make, self.count, self.size, self.seed = make, count, size, seed
        if seed is not None:
            self.sampler = self
        self.rank, self.world = 0, 1
        self._epoch = self._served = self._skip = 0

    def share(self, rank: int, world: int) -> None:
        """Serve one of ``world`` processes, which together serve batches so many times as large."""
        self.rank, self.world = rank, world

    def __len__(self) -> int:
        return math.ceil(self.count / (self.size * self.world))

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of this epoch."""
        self._epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """How far into the epoch it is."""
        return {"served": self._served % max(len(self), 1)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Let the next epoch begin after the batches that were served already."""
        self._skip = state["served"]

    def __iter__(self) -> Iterator[Batch]:
        first, self._skip = self._skip, 0
        # A generator: its body runs at the first batch, when the epoch is known.
        return self._batches(first)

    def _batches(self, first: int) -> Iterator[Batch]:
        batches = self._batches_of_epoch()
        for self._served, index in enumerate(batches[first:], first + 1):
            yield self._own(index)

    def _own(self, index: Tensor) -> Batch:
        """This process's part of a batch; where there are too few, one of which nothing counts."""
        own = index[self.rank :: self.world]
        if len(own):
            return self.make(own)
        batch = self.make(index[:1])
        return replace(batch, target=batch.target[:0], select=torch.empty(0, dtype=torch.long))

    def _batches_of_epoch(self) -> Sequence[Tensor]:
        """The examples of every batch, over all processes."""
        return self._order().split(self.size * self.world)

    def _order(self) -> Tensor:
        if self.seed is None or self.count < 2:  # seeding takes as long as a small step
            return torch.arange(self.count)
        return torch.randperm(self.count, generator=self._mixed())

    def _mixed(self) -> torch.Generator:
        assert self.seed is not None
        return torch.Generator().manual_seed(self.seed * 1_000_003 + self._epoch)
