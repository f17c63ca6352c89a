"""Incremental decoding with cached keys and values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise._utils.arguments import check_given
from edgewise._utils.errors import ArgumentError
from edgewise.layers import Cache, EncoderDecoderModel, Memory, TextModel


class Continuation:
    """State of incremental decoding: computes next-token logits for a prompt and added tokens.

    Args:
        model: language model, or encoder-decoder whose decoder reads the prompt.
        memory: encoded sequence for cross-attention, such as ``model.encode(source, mask)`` or
            image patches as :class:`edgewise.layers.Memory`.
        cached: whether to cache keys and values. Without a cache, each step processes the whole
            text again, with the same result.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> from edgewise.decoding import Continuation
        >>> text = Continuation(models.gpt(1000).eval())
        >>> text.read(torch.tensor([[5, 7, 9]])).shape  # logits of the fourth token
        torch.Size([1, 1000])
        >>> text.read(torch.tensor([[4]])).shape  # logits of the fifth token
        torch.Size([1, 1000])
    """

    def __init__(
        self,
        model: TextModel | EncoderDecoderModel,
        memory: Memory | None = None,
        *,
        cached: bool = True,
    ) -> None:
        if isinstance(model, EncoderDecoderModel):
            expected = "the encoded source for cross-attention"
            check_given("memory", memory, expected, "pass model.encode(source_ids, source_mask)")
        self.model, self.memory = model, memory
        self.cache = Cache() if cached else None
        self._ids: Tensor | None = None
        self._mask: Tensor | None = None

    @torch.no_grad()
    def read(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """Append tokens, and return the logits ``[B, vocab_size]`` of the next token.

        Args:
            ids: new tokens ``[B, T]``.
            mask: ``[B, T]``, 0 for padding at the start of a prompt. ``None`` means no padding.

        Raises:
            ArgumentError: a prompt is padded on the right.
        """
        if mask is not None and not bool(mask[:, -1].all()):
            raise ArgumentError(
                "attention_mask",
                expected="1 for the last token of every prompt",
                got="padding at the end",
                remedy="pad prompts on the left",
            )
        self._extend(ids, mask)
        assert self._ids is not None
        new = ids if self.cache is not None else self._ids
        options: dict[str, Any] = {"cache": self.cache}
        if self._mask is not None:
            # Positions count tokens, without padding.
            options["positions"] = (self._mask.cumsum(-1) - 1).clamp(min=0)[:, -new.shape[1] :]
        model = self.model
        if isinstance(model, EncoderDecoderModel):
            assert self.memory is not None
            states = model.decode(new, self.memory, self._mask, **options)
        else:
            states = model(new, self._mask, memory=self.memory, **options)
        return model.logits(states[:, -1])

    def select(self, rows: Tensor) -> None:
        """Select batch elements by index, for example the parents of beams."""
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
