"""Sentences with a label each: ``sentence <tab> label``, one on a line."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from edgewise.arguments import check_share
from edgewise.batches import Batch
from edgewise.data.splits import Split, Splits, TextSplits
from edgewise.data.text.packed_texts import PackedTexts
from edgewise.data.text.text_data import TextData, shown_tokens
from edgewise.data.text.tokenizer import Kind, Special, encode_all
from edgewise.errors import ArgumentError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Labelled = list[tuple[str, str]]
SPECIAL: tuple[Special, ...] = ("pad", "unk", "cls", "sep")
PARTS = ("train", "val", "test")


@dataclass(frozen=True)
class LabelledSentences(TextData):
    """Sentences, as ``<cls> tokens <sep>``, and their label.

    Attributes:
        longest: the most tokens that are kept of a sentence, with both special ones; 0 keeps all.
        packed: whether a batch is one axis of tokens without padding, or padded to its longest;
            the numbers are the same.
        word_dropout: the share of tokens that training does not show, others every time: there is
            ``<unk>``, or ``<mask>`` where the model has been pre-trained with it.
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`.

    """

    kind: Kind = "wordpiece"
    vocabulary_size: int | None = 8000
    longest: int = 0
    packed: bool = True
    word_dropout: float = 0.0

    provides: ClassVar[tuple[str, ...]] = ("vocabulary", "longest", "out_width")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("longest", 0, 128)
        check_share("data.word_dropout", self.word_dropout, "choose for example 0.1")

    @abstractmethod
    def files(self) -> dict[str, tuple[str, str]]:
        """Text and name of the file of each split."""

    def load(self) -> Splits:
        files = self.files()
        parts = {name: read_labelled(*file) for name, file in files.items()}
        labels = sorted({label for _, label in parts["train"]})
        tokenizer = self.make_tokenizer((text for text, _ in parts["train"]), SPECIAL)
        splits, longest = {}, 0
        for name, found in parts.items():
            ids, sizes = encode_all(tokenizer, [text for text, _ in found], first="cls", last="sep")
            texts = PackedTexts(ids, sizes)
            texts = texts.cut(self.longest) if self.longest else texts
            target = numbered(found, labels, files[name][1])
            splits[name] = self._part(
                texts, target, tokenizer, self.word_dropout * (name == "train")
            )
            longest = max(longest, int(texts.sizes.max()))
        size = tokenizer.get_vocab_size()
        data_sizes = {"vocabulary": size, "longest": longest, "out_width": len(labels)}
        train, val, test = (splits[name] for name in PARTS)
        return TextSplits(data_sizes, train, val, test, self.batch_size, tokenizer)

    def _part(
        self, texts: PackedTexts, target: Tensor, tokenizer: Tokenizer, word_dropout: float
    ) -> Split:
        show = partial(
            shown_tokens,
            tokenizer=tokenizer,
            special=len(SPECIAL),
            packed=self.packed,
            word_dropout=word_dropout,
        )

        def make(index: Tensor) -> Batch:
            return Batch((show(*texts.take(index)),), target[index])

        return Split(len(texts), make, lengths=texts.sizes)


def read_labelled(text: str, name: str) -> Labelled:
    """Sentence and label of each line.

    Raises:
        ArgumentError: a line without a sentence, or without a label; names the line.
    """
    found = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        sentence, _, label = line.rpartition("\t")
        if not sentence.strip() or not label.strip():
            raise ArgumentError(
                name,
                expected="lines of the form sentence <tab> label",
                got=f"{line!r} in line {number}" if line.strip() else f"an empty line, {number}",
                remedy="correct or drop this line",
            )
        found.append((sentence.strip(), label.strip()))
    return found


def numbered(found: Labelled, labels: list[str], file: str) -> Tensor:
    """Labels as their place in ``labels``; an error names the file that they are from."""
    places = {label: place for place, label in enumerate(labels)}
    for text, label in found:
        if label not in places:
            raise ArgumentError(
                file,
                expected=f"one of the labels of the training split, {', '.join(labels)}",
                got=f"{label!r} of {text[:40]!r}",
                remedy="correct it, or add sentences with it to the training split",
            )
    return torch.tensor([places[label] for _, label in found])
