"""Batches: model inputs with their targets, made by data loaders and used by tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

UNLABELLED = -100
"""Target value that excludes an output from loss and metrics, like PyTorch's ``ignore_index``."""


@dataclass(frozen=True)
class Batch:
    """Inputs of a model and targets of its outputs.

    Attributes:
        inputs: positional arguments: the model is called as ``model(*inputs, **keywords)``.
        target: targets ``[M, ...]``.
        select: indices ``[M]`` of the output rows with a target; None selects all rows. In a single
            large graph the model computes all nodes, but only those of a split have targets.
        keywords: keyword arguments of the model, such as ``edge_attr``.
        continues: for language models: True if row i continues the text of row i of the previous
            batch, so that the model is called with the ``cache=`` of that batch; False if new texts
            start. None if batches are independent.

    Example:
        >>> import torch
        >>> from edgewise.app.train import Batch
        >>> batch = Batch((torch.randn(8, 4),), torch.arange(8) % 2)
        >>> outputs = torch.nn.Linear(4, 2)(*batch.inputs)
        >>> batch.select_outputs(outputs).shape
        torch.Size([8, 2])
    """

    inputs: tuple[Any, ...]
    target: Tensor
    select: Tensor | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)
    continues: bool | None = None

    def to(self, device: torch.device) -> Batch:
        """Return a copy of the batch on another device."""
        if self.target.device == device:
            return self
        select = None if self.select is None else self.select.to(device)
        inputs = tuple(x.to(device) for x in self.inputs)
        keywords = {name: x.to(device) for name, x in self.keywords.items()}
        target = self.target.to(device)
        return replace(self, inputs=inputs, keywords=keywords, target=target, select=select)

    def select_outputs(self, outputs: Tensor) -> Tensor:
        """Return the output rows ``[M, ...]`` that have targets, in the order of ``target``."""
        return outputs if self.select is None else outputs[self.select]


@dataclass(frozen=True)
class WritingBatch(Batch):
    """Batch for text generation, with reference texts to compare with.

    Attributes:
        prompt: id of the start token for each generated text, ``[B, 1]``.
        end: id of the end-of-sequence token.
        padding: id of the padding token.
        references: reference text of each example.
        decode: function from token ids ``[B, T]`` to texts.
    """

    prompt: Tensor = field(default_factory=lambda: torch.empty(0, 1, dtype=torch.long))
    end: int = 0
    padding: int = 0
    references: tuple[str, ...] = ()
    decode: Callable[[Tensor], list[str]] = lambda _: []


@dataclass(frozen=True)
class LinkBatch(Batch):
    """Batch of pairs of nodes. Rankings pair the nodes ``left`` with the nodes ``right``, except
    ``known``, the undirected edges ``[2, E]`` of earlier splits.
    """

    known: Tensor = field(default_factory=lambda: torch.empty(2, 0, dtype=torch.long))
    left: range = range(0)
    right: range = range(0)
