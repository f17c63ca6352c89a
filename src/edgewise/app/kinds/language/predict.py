"""Predictors of language models: continuations, masked words, embeddings."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import decoding
from edgewise._utils.arguments import check_range, check_seed
from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.language.contrastive import Contrastive
from edgewise.app.kinds.language.data import TextStream
from edgewise.app.kinds.language.halves import TextHalves
from edgewise.app.kinds.language.masked_text import MaskedText
from edgewise.app.kinds.language.task import LanguageModeling, MaskedLanguageModeling
from edgewise.app.predict.predictor import Answer, check_text
from edgewise.app.predict.texts import OnTexts, _joined
from edgewise.app.train.text.tokenizer import encode_all, special_id, special_ids
from edgewise.decoding import Choose, Greedy, Sample
from edgewise.layers import LanguageModel, Tokens

MASK = re.compile(r"<mask>|\[MASK\]")


class TextEmbeddings(OnTexts):
    """Embedding of a text, of unit length, so that an inner product is a cosine similarity."""

    data, task, input = TextHalves, Contrastive, "a text"

    def answer(self, examples: list[str]) -> list[Answer]:
        texts, notes = self.truncated(examples)
        embeddings = F.normalize(self.model(Tokens(texts.ids, texts.sizes)), dim=-1)
        return _joined([{"embedding": row} for row in embeddings.tolist()], notes)


class HiddenWords(OnTexts):
    """Most probable words at the positions of ``<mask>`` or ``[MASK]``."""

    data, task, input = MaskedText, MaskedLanguageModeling, "a text with <mask> in it"

    def prepare(self, value: Any) -> tuple[str, Tensor]:
        """Return the text and its token ids."""
        text = check_text(value, self.input)
        if not MASK.search(text):
            raise ArgumentError(
                "input",
                expected=self.input,
                got=repr(text)[:60],
                remedy="write <mask> or [MASK] instead of a word",
            )
        own = self.tokenizer.id_to_token(special_id(self.tokenizer, "mask")) or ""
        ids, _ = encode_all(self.tokenizer, [MASK.sub(own, text)], first="cls", last="sep")
        longest = self.preprocessing.model_arguments["longest_text"]
        if len(ids) > longest:
            raise ArgumentError(
                "input",
                expected=f"a text of at most {longest} tokens, the maximum length in training",
                got=f"{len(ids)} tokens",
                remedy="remove text that is far from the mask",
            )
        return text, ids

    def answer(self, examples: list[tuple[str, Tensor]], *, top: int = 5) -> list[Answer]:
        """Return each text with its masks filled, and the most probable words for each mask.

        Args:
            examples: texts and their token ids.
            top: number of words for each mask.
        """
        check_range("top", top, "choose a number of words, such as 5", least=1)
        ids = torch.cat([ids for _, ids in examples])
        sizes = torch.tensor([len(ids) for _, ids in examples])
        places = (ids == special_id(self.tokenizer, "mask")).nonzero().flatten()
        logits = self.model(Tokens(ids, sizes), places)
        special = special_ids(self.tokenizer)
        logits[:, special] = -torch.inf  # Special tokens are not words.
        best = logits.softmax(-1).topk(min(top, logits.shape[-1] - len(special)), dim=-1)
        rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        counts = [len(MASK.findall(text)) for text, _ in examples]
        starts = accumulate(counts, initial=0)
        found = [
            [
                {"word": self.tokenizer.decode([token]).strip(), "probability": value}
                for value, token in zip(values, tokens, strict=True)
            ]
            for values, tokens in rows
        ]
        return [
            fill_masks(text, found[start : start + count])
            for (text, _), count, start in zip(examples, counts, starts, strict=False)
        ]


def fill_masks(text: str, found: list[list[dict[str, Any]]]) -> Answer:
    """Replace each mask by its most probable word.

    A word piece, which WordPiece writes as ``##ing``, is joined to the word before it.

    Args:
        text: text with masks.
        found: for each mask, its candidates by decreasing probability.

    Returns:
        The filled text and the candidates.
    """
    for words in found:
        best = words[0]["word"]
        piece = best.removeprefix("##")
        before = r"\s*" if piece != best else ""
        place = re.compile(f"{before}(?:{MASK.pattern})").search(text)
        assert place
        text = f"{text[: place.start()]}{piece}{text[place.end() :]}"
    words = [{"mask": number, **word} for number, each in enumerate(found, 1) for word in each]
    return {"text": text, "words": words}


class Continuations(OnTexts):
    """Text generated by a language model, after the given beginning."""

    data, task, input = TextStream, LanguageModeling, "the beginning of a text"
    text_key = "text"

    def prepare(self, value: Any) -> Tensor:
        """Return the token ids of the beginning; spaces and line ends are kept."""
        assert isinstance(self.recipe.data, TextStream)
        ids = self.recipe.data.encode(self.tokenizer, value) if isinstance(value, str) else ()
        if not len(ids):
            raise ArgumentError(
                "input",
                expected="a non-empty prompt (a string)",
                got=repr(value)[:60],
                remedy="pass a string with at least one character",
            )
        assert isinstance(ids, Tensor)
        return ids

    def answer(
        self,
        examples: list[Tensor],
        *,
        max_new_tokens: int = 300,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> list[Answer]:
        """Generate each text independently of the others.

        Args:
            examples: token ids of the beginnings.
            max_new_tokens: number of tokens to generate.
            temperature: sampling temperature; 0 picks the most probable token.
            top_k: see :class:`edgewise.decoding.Sample`.
            top_p: see :class:`edgewise.decoding.Sample`.
            seed: random seed for sampling.
        """
        check_range("max_new_tokens", max_new_tokens, "choose for example 300", least=0)
        check_range("temperature", temperature, "choose for example 0.8", least=0)
        check_seed("seed", seed)
        texts = []
        for ids in examples:
            choose: Choose = Greedy()
            if temperature:
                random = torch.Generator().manual_seed(seed)
                choose = Sample(temperature, top_k, top_p, random)
            texts.append(self._continue(ids, max_new_tokens, choose))
        return [{"text": text} for text in texts]

    def _continue(self, ids: Tensor, max_new_tokens: int, choose: Choose) -> str:
        """Generate the continuation of a text, in windows of the model's context length.

        When a window is full, the next window starts with the second half of the full one.

        Args:
            ids: token ids of the beginning, ``[T]``.
            max_new_tokens: number of tokens to generate.
            choose: function that samples the next token.
        """
        data, model = self.recipe.data, self.model
        assert isinstance(data, TextStream)
        assert isinstance(model, LanguageModel)
        trunk, text, context = model.trunk, ids[None], data.context
        wanted = text.shape[1] + max_new_tokens
        while text.shape[1] < wanted:
            start = text[:, -max(1, context // 2) :] if text.shape[1] >= context else text
            new = min(wanted - text.shape[1], context - start.shape[1] + 1)
            longer = decoding.generate(
                trunk, start, max_new_tokens=new, choose=choose, cached=trunk.caches
            )
            text = torch.cat([text, longer[:, start.shape[1] :]], dim=1)
        return data.decode(self.tokenizer, text[0])
