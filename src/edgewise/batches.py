"""Batches: what a model is given at once, and what it should answer.

Data make them and tasks read them, so they stand below both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

UNLABELLED = -100
"""The target of an output that does not count: PyTorch's ``ignore_index``."""


@dataclass(frozen=True)
class Batch:
    """Inputs of a model and the targets of the outputs that count.

    Attributes:
        inputs: the model is called ``model(*inputs, **keywords)``.
        target: ``[M, ...]``, one for each output that counts.
        select: ``[M]``, which rows of the output those are; all of them where it is ``None``. In a
            single large graph every node is read but only the nodes of a split count.
        keywords: what the model is given by name, such as ``edge_attr``.
        follows: whether its texts go on where those of the batch before ended, row by row, so that
            what the model has kept of these is given back to it as ``cache=``; ``None`` where
            batches have nothing to do with each other.

    """

    inputs: tuple[Any, ...]
    target: Tensor
    select: Tensor | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
    follows: bool | None = None

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        if self.target.device == device:
            return self
        select = None if self.select is None else self.select.to(device)
        inputs = tuple(x.to(device) for x in self.inputs)
        keywords = {name: x.to(device) for name, x in self.keywords.items()}
        target = self.target.to(device)
        return replace(self, inputs=inputs, keywords=keywords, target=target, select=select)

    def counted(self, outputs: Tensor) -> Tensor:
        """The rows ``[M, ...]`` of the outputs that count, in the order of ``target``."""
        return outputs if self.select is None else outputs[self.select]


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
