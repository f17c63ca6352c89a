"""Batches of about so many tokens, of texts of about one length."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.loader import Loader
from edgewise.data.splits import Split


class BucketLoader(Loader):
    """Sorts by length, cuts into batches of tokens, and serves these in a random order.

    Texts of one length take turns in an order of (seed, epoch), so that batches differ between
    epochs, while their number does not.

    Args:
        make: the batch of these examples, given as an index ``[B]``.
        lengths: ``[count]`` or ``[count, texts]``, how many tokens each example has.
        tokens: the most in a batch; an example that alone has more is a batch of its own.
        seed: as of :class:`Loader`; without it the longest come first, as memory that suffices for
            them suffices for all.
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
        mixed = self._mixed()
        if mixed is None:
            return batches
        return [batches[i] for i in torch.randperm(len(batches), generator=mixed).tolist()]

    def _sorted(self) -> Tensor:
        order = self._order(self._mixed())
        # The total decides among examples with the same longest text: the cuts stay where they are.
        for key in (self._total, self._longest):
            order = order[key[order].argsort(stable=True, descending=True)]
        return order

    def _sizes(self) -> list[int]:
        """How many examples each batch has."""
        if self._cuts is None:
            self._cuts, held = [0], 0
            for total in self._total[self._sorted()].tolist():
                if held and held + total > self._total_size:
                    self._cuts.append(0)
                    held = 0
                self._cuts[-1] += 1
                held += total
        return self._cuts


class TokenSplit(Split):
    """A split of texts whose batches hold about so many tokens; see :class:`BucketLoader`."""

    def loader(self, batch_size: int, seed: int | None) -> Loader:
        assert self.lengths is not None
        return BucketLoader(self.make, self.lengths, batch_size, seed)
