"""Batches of texts of similar length with a maximum number of tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edgewise.app.train.batches import Batch
from edgewise.app.train.splits import Loader, Split


class BucketLoader(Loader):
    """Loader that sorts examples by length and forms batches of up to ``tokens`` tokens, or one
    example. With a seed, batches and texts of equal length are shuffled; without, the longest come
    first, so that running out of memory shows at once.
    """

    def __init__(
        self, make: Callable[[Tensor], Batch], lengths: Tensor, tokens: int, seed: int | None = None
    ) -> None:
        super().__init__(make, len(lengths), tokens, seed)
        lengths = lengths.reshape(len(lengths), -1)
        self._longest, self._total = lengths.amax(1), lengths.sum(1)
        self._cuts: list[int] | None = None

    def share(self, rank: int, world_size: int) -> None:
        super().share(rank, world_size)
        self._cuts = None

    def __len__(self) -> int:
        return len(self._sizes())

    def _indices(self) -> list[Tensor]:
        batches = list(self._sorted().split(self._sizes()))
        mixed = self._generator()
        if mixed is None:
            return batches
        return [batches[i] for i in torch.randperm(len(batches), generator=mixed).tolist()]

    def _sorted(self) -> Tensor:
        generator = self._generator()
        if generator is None:
            order = torch.arange(self.count)
        else:
            order = torch.randperm(self.count, generator=generator)
        # Ties are broken by the total, so that the cuts are the same in every epoch.
        for key in (self._total, self._longest):
            order = order[key[order].argsort(stable=True, descending=True)]
        return order

    def _sizes(self) -> list[int]:
        """Return the number of examples of each batch."""
        if self._cuts is None:
            self._cuts, held = [0], 0
            for total in self._total[self._sorted()].tolist():
                if held and held + total > self.total_size:
                    self._cuts.append(0)
                    held = 0
                self._cuts[-1] += 1
                held += total
        return self._cuts


class TokenSplit(Split):
    """Split of texts whose batches have a maximum number of tokens; see :class:`BucketLoader`."""

    def loader(self, batch_size: int, seed: int | None) -> Loader:
        assert self.lengths is not None
        return BucketLoader(self.make, self.lengths, batch_size, seed)
