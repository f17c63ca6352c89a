"""Texts with labels; sentences with a label each: ``sentence <tab> label``, one on a line."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise.arguments import check_share
from edgewise.batches import Batch
from edgewise.data.splits import Split, Splits, TextSplits
from edgewise.data.text.packed_texts import PackedTexts, drop_words
from edgewise.data.text.text_data import TextData
from edgewise.data.text.tokenizer import (
    Kind,
    Special,
    encode_all,
    hiding_id,
    special_id,
    special_ids,
)
from edgewise.errors import ArgumentError
from edgewise.layers import Tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Labelled = list[tuple[str, str]]
SPECIAL: tuple[Special, ...] = ("pad", "unk", "cls", "sep")
PARTS = ("train", "val", "test")


class LabelledParts(NamedTuple):
    """Texts with labels, read.

    Attributes:
        parts: those of each split.
        files: where each split is from, for errors.
        column: of the texts in tables of this form.

    """

    parts: dict[str, Labelled]
    files: dict[str, str]
    column: str = "text"


@dataclass(frozen=True)
class LabelledText(TextData):
    """What data of labelled sentences and of labelled words have in common.

    Attributes:
        packed: whether a batch is one axis of tokens without padding, or padded to its longest;
            the numbers are the same.
        word_dropout: the share of tokens that training does not show, others every time: there is
            ``<unk>``, or ``<mask>`` where the model has been pre-trained with it.
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`.

    """

    kind: Kind = "wordpiece"
    vocabulary_size: int | None = 8000
    packed: bool = True
    word_dropout: float = 0.0

    provides: ClassVar[tuple[str, ...]] = ("vocabulary", "longest", "out_width")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("data.word_dropout", self.word_dropout, "choose for example 0.1")

    def shown(self, split: str, ids: Tensor, sizes: Tensor, tokenizer: Tokenizer) -> Tokens:
        """What a model reads of some texts.

        Args:
            split: words are dropped from those of ``"train"`` alone, others at every call.
            ids: ``[N]``, of one text after the other.
            sizes: ``[B]``, how many each text has.
            tokenizer: what made them.
        """
        if self.word_dropout and split == "train":
            ids = drop_words(ids, self.word_dropout, hiding_id(tokenizer), special_ids(tokenizer))
        tokens = Tokens(ids, sizes)
        return tokens if self.packed else tokens.padded(special_id(tokenizer, "pad"))


@dataclass(frozen=True)
class LabelledSentences(LabelledText):
    """Sentences, as ``<cls> tokens <sep>``, and their label.

    Attributes:
        longest: the most tokens that are kept of a sentence, with both special ones; 0 keeps all.
        labelled: so many training sentences, drawn once, are trained on, as if the others had no
            label; the vocabulary is still made of all. 0 takes all.
        packed, word_dropout: see :class:`LabelledText`.
        kind, vocabulary_size, lowercase, tokenizer, batch_size: see :class:`TextData`.

    """

    longest: int = 0
    labelled: int = 0

    names: ClassVar[Mapping[str, str]] = {}
    """What the labels are called in answers, where the file only numbers them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("longest", 0, 128)
        self.at_least("labelled", 0, 1000)

    @abstractmethod
    def parts(self) -> LabelledParts:
        """The sentences of each split."""

    def load(self) -> Splits:
        parts, files, column = self.parts()
        labels = sorted({label for _, label in parts["train"]})
        tokenizer = self.make_tokenizer((text for text, _ in parts["train"]), SPECIAL)
        parts = {**parts, "train": self._with_labels(parts["train"])}
        splits, longest = {}, 0
        for name, found in parts.items():
            ids, sizes = encode_all(tokenizer, [text for text, _ in found], first="cls", last="sep")
            texts = PackedTexts(ids, sizes)
            texts = texts.cut(self.longest) if self.longest else texts
            target = numbered(found, labels, files[name])
            splits[name] = self._split(name, texts, target, tokenizer)
            longest = max(longest, int(texts.sizes.max()))
        size = tokenizer.get_vocab_size()
        data_sizes = {"vocabulary": size, "longest": longest, "out_width": len(labels)}
        train, val, test = (splits[name] for name in PARTS)
        named = [self.names.get(label, label) for label in labels]
        fitted = {"labels": named, "text": column}
        return TextSplits(data_sizes, train, val, test, self.batch_size, tokenizer, fitted=fitted)

    def _with_labels(self, found: Labelled) -> Labelled:
        """Those sentences of the training split that are trained on, in the same order."""
        if not self.labelled:
            return found
        if self.labelled > len(found):
            raise ArgumentError(
                "data.labelled",
                expected=f"at most {len(found)}, the sentences of the training split",
                got=str(self.labelled),
                remedy="choose fewer, or 0 for all",
            )
        drawn = torch.randperm(len(found), generator=torch.Generator().manual_seed(0))
        return [found[i] for i in drawn[: self.labelled].sort().values.tolist()]

    def _split(self, name: str, texts: PackedTexts, target: Tensor, tokenizer: Tokenizer) -> Split:
        def make(index: Tensor) -> Batch:
            tokens = self.shown(name, *texts.take(index), tokenizer)
            return Batch((tokens,), target[index])

        return Split(len(texts), make, lengths=texts.sizes)


def numbered(found: Labelled, labels: list[str], file: str) -> Tensor:
    """Labels as their index in ``labels``; an error names the file that they are from."""
    index_of = {label: index for index, label in enumerate(labels)}
    for text, label in found:
        if label not in index_of:
            raise ArgumentError(
                file,
                expected=f"one of the labels of the training split, {', '.join(labels)}",
                got=f"{label!r} of {text[:40]!r}",
                remedy="correct it, or add sentences with it to the training split",
            )
    return torch.tensor([index_of[label] for _, label in found])
