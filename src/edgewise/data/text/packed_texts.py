"""Texts packed on one token axis; batches are sliced without a loop over texts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.ragged import ranges, starts


@dataclass(frozen=True)
class PackedTexts:
    """Packed ids of S texts with N tokens (or words) in total.

    Attributes:
        ids: token ids, ``[N]``.
        sizes: length of each text, ``[S]``.
    """

    ids: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the packed ids of some texts, and their lengths ``[B]``."""
        return self.ids[self.where(index)], self.sizes[index]

    def where(self, index: Tensor) -> Tensor:
        """Return the positions of the ids of some texts on the packed axis."""
        return ranges(starts(self.sizes)[index], self.sizes[index])

    def cut(self, max_length: int) -> PackedTexts:
        """Truncate every text to ``max_length`` ids."""
        sizes = self.sizes.clamp(max=max_length)
        return PackedTexts(self.ids[ranges(starts(self.sizes), sizes)], sizes)


def drop_words(ids: Tensor, share: float, hiding: int, special: Tensor) -> Tensor:
    """Replace tokens at random (word dropout, Iyyer et al., Deep unordered composition, 2015)."""
    lost = (torch.rand(ids.shape) < share) & ~torch.isin(ids, special)
    return torch.where(lost, hiding, ids)
