"""Incremental decoding: a model that has read a prompt is asked for the next token's logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise.arguments import check_given
from edgewise.errors import ArgumentError
from edgewise.layers import Cache, EncoderDecoderModel, Memory, TextModel


class Continuation:
    """Reads a prompt, then a token at a time, and gives the logits of each next token.

    Args:
        model: of text, or of pairs, which reads the prompt as its target.
        memory: what the model reads besides, if it does: ``pairs.encode(source, mask)``, or an
            image's patches as :class:`edgewise.layers.Memory`.
        cached: keep keys and values; without, every step reads all from the beginning, which
            gives the same and takes longer.
    """

    def __init__(
        self,
        model: TextModel | EncoderDecoderModel,
        memory: Memory | None = None,
        *,
        cached: bool = True,
    ) -> None:
        if isinstance(model, EncoderDecoderModel):
            expected = "the encoded source, which the decoder reads"
            check_given("memory", memory, expected, "pass model.encode(source_ids, source_mask)")
        self.model, self.memory = model, memory
        self.cache = Cache() if cached else None
        self._ids: Tensor | None = None
        self._mask: Tensor | None = None

    @torch.no_grad()
    def read(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Logits ``[B, vocabulary]`` of the token after ids ``[B, T]``, which follow what was read.

        Args:
            ids: new tokens.
            mask: ``[B, T]``, 0 for padding before the first token of a prompt; ``None`` for none.

        Raises:
            ArgumentError: padding after a prompt.
        """
        if mask is not None and not bool(mask[:, -1].all()):
            raise ArgumentError(
                "attention_mask",
                expected="1 for the last token of every prompt",
                got="padding at the end",
                remedy="pad prompts on the left, so that each continues where it ends",
            )
        self._extend(ids, mask)
        assert self._ids is not None
        new = ids if self.cache is not None else self._ids
        reads: dict[str, Any] = {"cache": self.cache}
        if self._mask is not None:
            # A position is the number of tokens before, not of places.
            reads["positions"] = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -new.shape[1] :]
        model = self.model
        if isinstance(model, EncoderDecoderModel):
            assert self.memory is not None
            states = model.decode(new, self.memory, self._mask, **reads)
        else:
            states = model(new, self._mask, memory=self.memory, **reads)
        return model.logits(states[:, -1])

    def select(self, rows: Tensor) -> None:
        """Go on with these members of the batch, in this order."""
        if self.cache is not None:
            self.cache.select(rows)
        if self._ids is not None:
            self._ids = self._ids[rows]
        if self._mask is not None:
            self._mask = self._mask[rows]

    def _extend(self, ids: Tensor, mask: Tensor | None) -> None:
        if self._ids is None:
            self._ids = ids
            self._mask = None if mask is None or bool(mask.all()) else mask.long()
            return
        self._ids = torch.cat([self._ids, ids], dim=1)
        if self._mask is not None:
            self._mask = torch.cat([self._mask, torch.ones_like(ids)], dim=1)
