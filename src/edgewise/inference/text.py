"""Predictors for texts: labels, tags, embeddings, masked words, continuations, translations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import decoding
from edgewise.arguments import check_from_zero, check_least, check_seed
from edgewise.data.reading import read_own_text
from edgewise.data.tables.read import form_of
from edgewise.data.text.conllu import blocks, words_of
from edgewise.data.text.labelled_sentences import LabelledSentences
from edgewise.data.text.masked_text import MaskedText
from edgewise.data.text.packed_texts import PackedTexts
from edgewise.data.text.parallel import Pairs, TextPairs, sources_of
from edgewise.data.text.tagged_words import TaggedWords, encode_words
from edgewise.data.text.text_halves import TextHalves
from edgewise.data.text.text_stream import TextStream
from edgewise.data.text.tokenizer import encode_all, special_id, special_ids
from edgewise.decoding import Choose, Greedy, Sample
from edgewise.errors import ArgumentError
from edgewise.inference.predictor import Answer, Predictor, check_text, top_labels
from edgewise.inference.properties import Properties
from edgewise.layers import LanguageModel, Tokens
from edgewise.tasks import (
    Contrastive,
    LanguageModeling,
    MaskedLanguageModeling,
    Tagging,
    TextClassification,
    Translation,
)

MASK = re.compile(r"<mask>|\[MASK\]")
MAX_LENGTH_FACTOR = 4
"""Maximum length of a text to translate, as a multiple of the longest training text. For longer
texts, the output is useless and slow to compute."""


class OnTexts(Predictor):
    """Base of predictors on texts; the text column is named as in the training table."""

    def columns(self) -> tuple[str, ...]:
        return (self.preprocessing.values.get("text", "text"),)

    def prepare(self, value: Any) -> Any:
        return check_text(value, self.input)

    def truncated(self, examples: list[str]) -> tuple[PackedTexts, list[Answer]]:
        """Tokenize texts, and truncate those that are too long for the model.

        Returns:
            The tokens, and a dict for each text: empty, or a note that the text was truncated.
        """
        whole = PackedTexts(*encode_all(self.tokenizer, examples, first="cls", last="sep"))
        longest = self.preprocessing.model_arguments["longest_text"]
        notes: list[Answer] = [
            {"read": f"the first {longest} of {size} tokens"} if size > longest else {}
            for size in whole.sizes.tolist()
        ]
        return whole.cut(longest), notes


class OnSentences(OnTexts):
    """Base of predictors on sentences.

    A text longer than the longest training text is truncated.
    """

    data, input = LabelledSentences, "a sentence"

    def read(self, examples: list[str]) -> tuple[Tokens, list[Answer]]:
        """Tokenize sentences as in training; return the tokens and the notes of `truncated`."""
        data = self.recipe.data
        assert isinstance(data, LabelledSentences)
        texts, notes = self.truncated(examples)
        return data.shown("test", texts.ids, texts.sizes, self.tokenizer), notes


def _joined(answers: list[Answer], notes: list[Answer]) -> list[Answer]:
    return [answer | note for answer, note in zip(answers, notes, strict=True)]


class SentenceClasses(OnSentences):
    """Most probable labels of a sentence."""

    task = TextClassification

    def answer(self, examples: list[str], *, top: int = 1) -> list[Answer]:
        tokens, notes = self.read(examples)
        chances = self.model(tokens).softmax(-1)
        return _joined(top_labels(chances, self.preprocessing.values["labels"], top), notes)


class SentenceProperties(OnSentences, Properties):
    """Several labels of a sentence with their probabilities, or predicted numbers."""

    ensembles = True

    def answer(self, examples: list[str], *, interval: float = 0.0) -> list[Answer]:
        tokens, notes = self.read(examples)
        return _joined(self.described(*self.called(tokens), interval), notes)


class TextEmbeddings(OnTexts):
    """Embedding of a text, of unit length, so that an inner product is a cosine similarity."""

    data, task, input = TextHalves, Contrastive, "a text"

    def answer(self, examples: list[str]) -> list[Answer]:
        texts, notes = self.truncated(examples)
        embeddings = F.normalize(self.model(Tokens(texts.ids, texts.sizes)), dim=-1)
        return _joined([{"embedding": row} for row in embeddings.tolist()], notes)


class WordTags(OnTexts):
    """Most probable tag of each word of a sentence."""

    data, task, input = TaggedWords, Tagging, "a sentence, or a list of its words"

    def from_file(self, path: Path) -> Iterator[tuple[int | None, Mapping[str, Any], Any]]:
        """Read the sentences of a CoNLL-U file, a table (one per row) or a text (one per line)."""
        if form_of(path) != ".conllu":
            yield from super().from_file(path)
            return
        for line, block in blocks(read_own_text(path)):
            words = words_of(block)
            yield line, {"input": " ".join(words)}, words

    def prepare(self, value: Any) -> list[str]:
        """Split a text at white space; keep the words of a list as they are."""
        words = value.split() if isinstance(value, str) else value
        if (
            not isinstance(words, (list, tuple))
            or not words
            or not all(isinstance(word, str) and word.strip() for word in words)
        ):
            raise ArgumentError(
                "input",
                expected=f"{self.input} that is not blank",
                got=repr(value)[:60],
                remedy="write a sentence",
            )
        return [word.strip() for word in words]

    def answer(self, examples: list[list[str]]) -> list[Answer]:
        data = self.recipe.data
        assert isinstance(data, TaggedWords)
        tags = self.preprocessing.values["labels"]
        words = encode_words(self.tokenizer, [word for words in examples for word in words])
        longest = self.preprocessing.model_arguments["longest_text"]
        # A single word can have more tokens than any training sentence.
        words = words.cut(longest)
        parts = split_lengths([len(words) for words in examples], words.sizes.tolist(), longest)
        tokens = data.shown("test", words.ids, torch.tensor(parts), self.tokenizer)
        probabilities = self.model(tokens, words.sizes).softmax(-1)
        best = probabilities.max(-1)
        found = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [
            {
                "words": [
                    {"word": word, "tag": tags[number], "probability": value}
                    for word, (value, number) in zip(words, found, strict=False)
                ]
            }
            for words in examples
        ]


def split_lengths(counts: list[int], sizes: list[int], longest: int) -> list[int]:
    """Return the lengths in tokens of the parts into which long sentences are split.

    Args:
        counts: number of words of each sentence.
        sizes: number of tokens of each word.
        longest: maximum length of a part, in tokens.
    """
    parts: list[int] = []
    remaining = iter(sizes)
    for count in counts:
        parts.append(0)
        for _ in range(count):
            size = next(remaining)
            if parts[-1] + size > longest:
                parts.append(0)
            parts[-1] += size
    return parts


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
        check_least("top", top, 1, "choose a number of words, such as 5")
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
        check_from_zero("max_new_tokens", max_new_tokens, "choose for example 300")
        check_from_zero("temperature", temperature, "choose for example 0.8")
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


class Translations(OnTexts):
    """Target text of a sequence-to-sequence model, found by beam search."""

    data, task, input = TextPairs, Translation, "a text to translate"
    text_key = "translation"
    batch_size = 32

    def prepare(self, value: Any) -> Tensor:
        """Return the token ids ``[T]`` of the text."""
        read = sources_of(self.tokenizer, [check_text(value, self.input)]).ids
        # Runs of older versions do not have this value.
        trained = self.preprocessing.values.get("longest")
        if trained is not None and len(read) > MAX_LENGTH_FACTOR * trained:
            raise ArgumentError(
                "input",
                expected=f"a text of at most {MAX_LENGTH_FACTOR * trained} "
                f"tokens ({MAX_LENGTH_FACTOR} times the length of the longest training text)",
                got=f"{len(read)} tokens",
                remedy="translate the text sentence by sentence",
            )
        return read

    def answer(
        self,
        examples: list[Tensor],
        *,
        num_beams: int | None = None,
        max_new_tokens: int | None = None,
    ) -> list[Answer]:
        """Generate the target texts.

        Args:
            examples: token ids of the source texts.
            num_beams: beam size, by default the value in the recipe; 1 is greedy search.
            max_new_tokens: maximum number of tokens to generate, by default ``max_length_ratio`` of
                the recipe's task times the number of tokens of the longest source text.
        """
        task = self.recipe.task
        assert isinstance(task, Translation)
        if num_beams is not None:
            check_least("num_beams", num_beams, 1, "choose for example 5")
            task = replace(task, num_beams=num_beams)
        if max_new_tokens is not None:
            check_least("max_new_tokens", max_new_tokens, 1, "choose for example 50")
        source = PackedTexts(torch.cat(examples), torch.tensor(list(map(len, examples))))
        unknown = [""] * len(examples)  # Placeholders for the unknown target texts.
        pairs = Pairs.of_sources(self.tokenizer, source, unknown)
        texts = task.generate(self.model, pairs.take(torch.arange(len(examples))), max_new_tokens)
        return [{"translation": text} for text in texts]
