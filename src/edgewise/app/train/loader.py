"""Data loader whose order depends only on (seed, epoch), so that a run can be resumed exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from edgewise.app.train.batches import Batch

POOL = 32  # Number of batches whose examples are sorted by length together.


class Loader:
    """Data loader of one split, for data that fit in memory.

    Args:
        make: function that takes example indices ``[B]`` and returns their batch.
        count: number of examples.
        size: batch size; the last batch may be smaller.
        seed: random seed for shuffling, which differs between epochs; ``None`` does not shuffle.
        draw: number of examples sampled per epoch. Defaults to all; ignored without a seed.
        lengths: length of each example, ``[count]``. If given, batches hold examples of similar
            length, which reduces padding: the examples of ``POOL`` batches are sampled, sorted by
            length and cut into batches, and these batches are shuffled.

    Lightning calls ``loader.sampler.set_epoch``, and saves and restores ``loader.state_dict()``,
    which holds the number of batches served in the epoch.

    Example:
        >>> import torch
        >>> from edgewise.app.train import Batch, Loader
        >>> x, y = torch.randn(100, 4), torch.arange(100) % 2
        >>> def make(index):
        ...     return Batch((x[index],), y[index])
        >>> loader = Loader(make, count=100, size=32, seed=0)
        >>> [len(batch.target) for batch in loader]
        [32, 32, 32, 4]
    """

    def __init__(
        self,
        make: Callable[[Tensor], Batch],
        count: int,
        size: int,
        seed: int | None = None,
        *,
        draw: int | None = None,
        lengths: Tensor | None = None,
    ) -> None:
        self.make, self.count, self.size, self.seed = make, count, size, seed
        self.drawn = count if draw is None or seed is None else min(draw, count)
        self.lengths = lengths
        if seed is not None:
            self.sampler = self
        self.rank, self.world_size = 0, 1
        self._epoch = self._served = self._skip = 0

    def share(self, rank: int, world_size: int) -> None:
        """Serve only the examples of one process, up to ``size`` examples of a batch."""
        self.rank, self.world_size = rank, world_size

    @property
    def total_size(self) -> int:
        """Number of examples in a batch, summed over all processes."""
        return self.size * self.world_size

    def __len__(self) -> int:
        return math.ceil(self.drawn / self.total_size)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order."""
        self._epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """Return the number of batches served in this epoch."""
        return {"served": self._served % max(len(self), 1)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """In the next iteration, skip the batches that were served before an interruption."""
        self._skip = state["served"]

    def __iter__(self) -> Iterator[Batch]:
        first, self._skip = self._skip, 0
        # A generator starts when its first batch is requested, after the call of set_epoch.
        return self._batches(first)

    def _batches(self, first: int) -> Iterator[Batch]:
        batches = self._indices()
        for self._served, examples in enumerate(batches[first:], first + 1):
            index = examples[self.rank :: self.world_size]
            if len(index):
                yield self.make(index)
            else:  # All examples are in the batches of other processes: one without a target.
                batch = self.make(examples[:1])
                select = torch.empty(0, dtype=torch.long)
                yield replace(batch, target=batch.target[:0], select=select)

    def _indices(self) -> Sequence[Tensor]:
        """Return the example indices of each batch, for all processes together."""
        generator = self._generator()
        order = self._order(generator)
        if self.lengths is None or generator is None:
            if self.lengths is not None:
                order = order[self.lengths[order].argsort(stable=True)]
            batches: Sequence[Tensor] = order.split(self.total_size)
            return batches
        sorted_batches: list[Tensor] = []
        for pool in order.split(POOL * self.total_size):
            by_length = pool[self.lengths[pool].argsort(stable=True)]
            sorted_batches += by_length.split(self.total_size)
        order = torch.randperm(len(sorted_batches), generator=generator)
        return [sorted_batches[i] for i in order]

    def _order(self, generator: torch.Generator | None) -> Tensor:
        if generator is None:
            return torch.arange(self.count)
        return torch.randperm(self.count, generator=generator)[: self.drawn]

    def _generator(self) -> torch.Generator | None:
        """Return the random generator of this epoch; ``None`` if the epoch is not shuffled."""
        # Seeding a generator takes as long as a small training step, so avoid it if possible.
        if self.seed is None or self.count < 2:
            return None
        return torch.Generator().manual_seed(self.seed * 1_000_003 + self._epoch)
