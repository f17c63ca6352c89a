"""Token batches: texts one after the other on a packed axis, or padded to the longest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgewise.graphs.batch import Sizes


@dataclass(frozen=True, eq=False)
class Tokens:
    """What a model of texts reads, in either of the two forms, which give the same numbers.

    Attributes:
        ids: ``[N]`` of a packed batch, or ``[B, T]`` of a padded one.
        sizes: ``[B]``, how many of the N tokens each text has; ``None`` where they are padded.
        mask: ``[B, T]``, 0 where a token is padding; ``None`` where none is.
    """

    ids: Tensor
    sizes: Tensor | None = None
    mask: Tensor | None = None

    def to(self, device: torch.device) -> Tokens:
        """The same on another device; sizes stay, as graphs are made of them."""
        mask = None if self.mask is None else self.mask.to(device)
        return Tokens(self.ids.to(device), self.sizes, mask)

    def padded(self, padding: int) -> Tokens:
        """A packed batch in the other form, with this id where a text has ended."""
        if self.sizes is None:
            return self
        mask = torch.arange(int(self.sizes.max())) < self.sizes[:, None]  # on the host, as sizes
        if bool(mask.all()):
            return Tokens(self.ids.view(mask.shape))
        device, place = self.ids.device, mask.flatten().nonzero().flatten()
        ids = self.ids.new_full((mask.numel(),), padding)
        ids = ids.index_copy(0, place.to(device), self.ids).view(mask.shape)
        return Tokens(ids, mask=mask.long().to(device))

    def states(self, model: Any, **keywords: Any) -> Tensor:
        """What a text model makes of them, ``[N, width]``: text after text, without padding.

        Args:
            model: of text.
            keywords: what else it is called with.
        """
        if self.sizes is not None:
            packed: Tensor = model(self.ids, sizes=self.sizes, **keywords)
            return packed
        states: Tensor = model(self.ids, self.mask, **keywords)
        return states.flatten(0, -2) if self.mask is None else states[self.mask.bool()]

    def lengths(self) -> Sizes:
        """``[B]``, how many tokens each text has."""
        if self.sizes is not None:
            return self.sizes
        if self.mask is not None:
            return self.mask.sum(-1)
        return [self.ids.shape[-1]] * self.ids.shape[0]
