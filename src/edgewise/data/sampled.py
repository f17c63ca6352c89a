"""Training batches for which something is drawn: negatives, neighbourhoods, whole examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Generator, Tensor

from edgewise.batches import Batch
from edgewise.data.loader import Loader
from edgewise.data.splits import Split, Splits

RANKS = 2**48 + 21  # between the numbers of two processes

Draw = Callable[[Tensor, Generator], Batch]
"""The batch of these examples, with what is drawn for them taken from the generator."""


class SampledLoader(Loader):
    """A :class:`Loader` whose draws are decided by (seed, epoch, batch) and the process alone.

    Args:
        draw: the batch of these examples and a generator.
        count: how many examples there are.
        size: examples in a batch.
        seed: of the order and the draws.

    """

    def __init__(self, draw: Draw, count: int, size: int, seed: int) -> None:
        super().__init__(lambda index: draw(index, self._generator()), count, size, seed)

    def _generator(self) -> Generator:
        assert self.seed is not None
        # Four numbers in one, so that a continued epoch draws what an unbroken one would.
        mixed = (self.seed * 1_000_003 + self._epoch) * 1_000_003 + self._served
        return Generator().manual_seed((mixed + self.rank * RANKS) % 2**63)


@dataclass(frozen=True, kw_only=True)
class SampledSplit(Split):
    """A training split whose batches are drawn afresh in every epoch.

    Attributes:
        sample: makes a batch.
        size: examples in it; the data set's ``batch_size`` is for validation and test.

    """

    sample: Draw
    size: int

    @classmethod
    def of(cls, sample: Draw, count: int, size: int) -> SampledSplit:
        """Of ``count`` examples."""
        return cls(
            count, lambda index: sample(index, Generator().manual_seed(0)), sample=sample, size=size
        )

    def loader(self, batch_size: int, seed: int | None) -> Loader:  # noqa: ARG002
        assert seed is not None
        return SampledLoader(self.sample, self.count, self.size, seed)


def drawn_splits(
    sizes: Mapping[str, Any],
    draw: Callable[[int, Generator], tuple[Tensor, ...]],
    made: Callable[..., Batch],
    *,
    count: int,
    tested: int,
    split_seed: int,
    batch_size: int,
) -> Splits:
    """Splits of examples that are drawn: in every epoch to train on, once to validate and to test.

    Args:
        sizes: what a model is made with.
        draw: so many examples, as tensors of a row each.
        made: a batch of such rows.
        count: training examples in an epoch.
        tested: examples to validate and to test on, each.
        split_seed: which examples these are.
        batch_size: examples in a batch.

    """

    def fixed(seed: int) -> Split:
        parts = draw(tested, Generator().manual_seed(seed))
        return Split(tested, lambda index: made(*(part[index] for part in parts)))

    return Splits(
        dict(sizes),
        SampledSplit.of(
            lambda index, generator: made(*draw(len(index), generator)), count, batch_size
        ),
        fixed(2 * split_seed + 1),
        fixed(2 * split_seed + 2),
        batch_size=batch_size,
    )
