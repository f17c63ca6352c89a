"""Training batches that contain random samples: negatives, neighbourhoods or whole examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Generator, Tensor

from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Loader, Split

RANKS = 2**48 + 21  # Difference between the seeds of successive processes.

Draw = Callable[[Tensor, Generator], Batch]
"""Function that takes example indices and a random generator, and returns the batch."""


class SampledLoader(Loader):
    """:class:`Loader` whose random samples depend only on (seed, epoch, batch number, process)."""

    def __init__(self, draw: Draw, count: int, size: int, seed: int) -> None:
        super().__init__(lambda index: draw(index, self._batch_generator()), count, size, seed)

    def _batch_generator(self) -> Generator:
        assert self.seed is not None
        # Each batch has a separate seed, so that a resumed epoch samples the same batches.
        seed = (self.seed * 1_000_003 + self._epoch) * 1_000_003 + self._served
        return Generator().manual_seed((seed + self.rank * RANKS) % 2**63)


@dataclass(frozen=True, kw_only=True)
class SampledSplit(Split):
    """Training split whose batches of ``size`` examples are sampled anew in every epoch."""

    sample: Draw
    size: int

    @classmethod
    def of(cls, sample: Draw, count: int, size: int) -> SampledSplit:
        """Create a split of ``count`` examples."""
        return cls(
            count, lambda index: sample(index, Generator().manual_seed(0)), sample=sample, size=size
        )

    def loader(self, batch_size: int, seed: int | None) -> Loader:  # noqa: ARG002
        assert seed is not None
        return SampledLoader(self.sample, self.count, self.size, seed)
