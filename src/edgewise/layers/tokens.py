"""Batches of token ids, either concatenated (packed) or padded to equal lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from edgewise.graphs.batch import Sizes


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token ids of a batch of texts, packed or padded; models give equal results for both.

    Attributes:
        ids: token ids, ``[N]`` of concatenated (packed) texts, or ``[B, T]`` of a padded batch.
        sizes: number of tokens of each text of a packed batch, ``[B]``; ``None`` if padded.
        mask: ``[B, T]``, 0 at padding; ``None`` without padding.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> packed = layers.Tokens(torch.randint(1000, (5,)), sizes=torch.tensor([2, 3]))
        >>> mask = torch.tensor([[1, 1, 0], [1, 1, 1]])
        >>> padded = layers.Tokens(torch.randint(1000, (2, 3)), mask=mask)
    """

    ids: Tensor
    sizes: Tensor | None = None
    mask: Tensor | None = None

    def to(self, device: torch.device) -> Tokens:
        """Move to another device; sizes stay on the CPU, where graphs are built."""
        mask = None if self.mask is None else self.mask.to(device)
        return Tokens(self.ids.to(device), self.sizes, mask)

    def padded(self, padding: int) -> Tokens:
        """Convert a packed batch to a padded batch; ``padding`` is the id of the padding token."""
        if self.sizes is None:
            return self
        mask = torch.arange(int(self.sizes.max())) < self.sizes[:, None]
        if bool(mask.all()):
            return Tokens(self.ids.view(mask.shape))
        mask = mask.to(self.ids.device)
        ids = self.ids.new_full(mask.shape, padding).masked_scatter(mask, self.ids)
        return Tokens(ids, mask=mask.long())

    def states(self, model: Any, **kwargs: Any) -> Tensor:
        """Call a text model and return the states of all tokens except padding, ``[N, width]``."""
        if self.sizes is not None:
            packed: Tensor = model(self.ids, sizes=self.sizes, **kwargs)
            return packed
        states: Tensor = model(self.ids, self.mask, **kwargs)
        return states.flatten(0, -2) if self.mask is None else states[self.mask.bool()]

    def lengths(self) -> Sizes:
        """Return the number of tokens of each text, ``[B]``."""
        if self.sizes is not None:
            return self.sizes
        if self.mask is not None:
            return self.mask.sum(-1)
        return [self.ids.shape[-1]] * self.ids.shape[0]
