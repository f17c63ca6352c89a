"""What a model is given at once, and what it should answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Inputs of a model and the targets of the outputs that count.

    Attributes:
        inputs: the model is called ``model(*inputs, **keywords)``.
        target: ``[M, ...]``, one for each output that counts.
        select: ``[M]``, which rows of the output those are; all of them where it is ``None``. In a
            single large graph every node is read but only the nodes of a split count.
        keywords: what the model is given by name, such as ``edge_attr``.

    """

    inputs: tuple[Any, ...]
    target: Tensor
    select: Tensor | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)

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
