"""Many texts on one axis of tokens, from which any batch is cut without a loop over texts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.ragged import ranges, starts


@dataclass(frozen=True)
class PackedTexts:
    """S texts with N tokens, or words, in all.

    Attributes:
        ids: ``[N]``.
        sizes: ``[S]``, how many each text has.

    """

    ids: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Ids of these texts, one text after the other, and their sizes ``[B]``."""
        return self.ids[self.where(index)], self.sizes[index]

    def where(self, index: Tensor) -> Tensor:
        """Where the ids of these texts are on the axis."""
        return ranges(starts(self.sizes)[index], self.sizes[index])

    def cut(self, max_length: int) -> PackedTexts:
        """Every text without what comes after its first ``max_length``."""
        sizes = self.sizes.clamp(max=max_length)
        return PackedTexts(self.ids[ranges(starts(self.sizes), sizes)], sizes)


def drop_words(ids: Tensor, share: float, hiding: int, special: Tensor) -> Tensor:
    """Ids of which each, but for special ones, is hidden with this probability.

    A model that is trained so learns to do without any single word (Iyyer et al., Deep unordered
    composition, 2015).

    Args:
        ids: of tokens.
        share: the probability.
        hiding: the id that is shown instead.
        special: ids of the special tokens.
    """
    lost = (torch.rand(ids.shape) < share) & ~torch.isin(ids, special)
    return torch.where(lost, hiding, ids)
