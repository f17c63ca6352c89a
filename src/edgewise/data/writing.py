"""Batches whose targets are texts, which a model can also be asked to write by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from edgewise.data.batch import Batch


@dataclass(frozen=True)
class WritingBatch(Batch):
    """A :class:`Batch` with all that writing needs besides its inputs.

    Attributes:
        prompt: ``[B, 1]``, the token that each text begins with.
        end, padding: the token that ends a text, and what fills up after it.
        references: the texts that were wanted.
        decode: from ids ``[B, T]`` to texts.

    """

    prompt: Tensor = field(default_factory=lambda: torch.empty(0, 1, dtype=torch.long))
    end: int = 0
    padding: int = 0
    references: tuple[str, ...] = ()
    decode: Callable[[Tensor], list[str]] = lambda _: []
