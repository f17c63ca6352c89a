"""Texts packed on one token axis; batches are sliced without a loop over texts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, starts


@dataclass(frozen=True)
class PackedTexts:
    """Packed ids ``[N]`` of texts, with ``sizes [S]`` tokens (or words) each."""

    ids: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the packed ids of the texts at ``index`` ``[B]``, and their lengths ``[B]``."""
        return self.ids[self.where(index)], self.sizes[index]

    def where(self, index: Tensor) -> Tensor:
        """Return the positions on the packed axis that the texts at ``index`` occupy."""
        return ranges(starts(self.sizes)[index], self.sizes[index])

    def cut(self, max_length: int) -> PackedTexts:
        """Truncate every text to ``max_length`` ids."""
        sizes = self.sizes.clamp(max=max_length)
        return PackedTexts(self.ids[ranges(starts(self.sizes), sizes)], sizes)


def drop_words(ids: Tensor, fraction: float, hiding: int, special: Tensor) -> Tensor:
    """Replace each ordinary token by ``hiding`` with probability ``fraction`` (word dropout)."""
    lost = (torch.rand(ids.shape) < fraction) & ~torch.isin(ids, special)
    return torch.where(lost, hiding, ids)
