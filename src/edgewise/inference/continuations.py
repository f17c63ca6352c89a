"""Texts that a language model goes on with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from edgewise import decoding
from edgewise.arguments import check_from_zero, check_seed
from edgewise.data.text.text_stream import TextStream
from edgewise.decoding import Choose, Greedy, Sample
from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Answer
from edgewise.inference.texts import OfTexts
from edgewise.layers import LanguageModel
from edgewise.tasks import LanguageModeling


class Continuations(OfTexts):
    """The beginning of a text and what the model writes after it."""

    data, task, input = TextStream, LanguageModeling, "the beginning of a text"
    text_key = "text"

    def prepare(self, value: Any) -> Tensor:
        """The ids of the beginning, spaces and line ends as they are."""
        assert isinstance(self.recipe.data, TextStream)
        ids = self.recipe.data.encode(self.tokenizer, value) if isinstance(value, str) else ()
        if not len(ids):
            raise ArgumentError(
                "input",
                expected=f"{self.input}, at least one token",
                got=repr(value)[:60],
                remedy="write a word",
            )
        assert isinstance(ids, Tensor)
        return ids

    def answer(
        self,
        examples: list[Tensor],
        *,
        tokens: int = 300,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> list[Answer]:
        """The texts, each as it would be alone.

        Args:
            examples: ids of the beginnings.
            tokens: how many more.
            temperature: below 1 surer, above 1 freer, 0 always the likeliest token.
            top_k: see :class:`edgewise.decoding.Sample`.
            top_p: likewise.
            seed: of the choice.
        """
        check_from_zero("tokens", tokens, "choose for example 300")
        check_from_zero("temperature", temperature, "choose for example 0.8")
        check_seed("seed", seed)
        texts = []
        for ids in examples:
            choose: Choose = Greedy()
            if temperature:
                random = torch.Generator().manual_seed(seed)
                choose = Sample(temperature, top_k, top_p, random)
            texts.append(self._continued(ids, tokens, choose))
        return [{"text": text} for text in texts]

    def _continued(self, ids: Tensor, tokens: int, choose: Choose) -> str:
        """No token reads further back than the context that was trained on.

        Where a text becomes longer, the model goes on from the last half of a context.
        """
        data, model = self.recipe.data, self.model
        assert isinstance(data, TextStream)
        assert isinstance(model, LanguageModel)
        trunk, text, context = model.trunk, ids[None], data.context
        wanted = text.shape[1] + tokens
        while text.shape[1] < wanted:
            start = text[:, -max(1, context // 2) :] if text.shape[1] >= context else text
            new = min(wanted - text.shape[1], context - start.shape[1] + 1)
            longer = decoding.generate(
                trunk, start, max_new_tokens=new, choose=choose, cached=trunk.caches
            )
            text = torch.cat([text, longer[:, start.shape[1] :]], dim=1)
        return data.decode(self.tokenizer, text[0])
