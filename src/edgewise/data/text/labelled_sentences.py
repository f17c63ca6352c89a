"""Base classes of labelled texts, and of text classification."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise.arguments import check_share
from edgewise.batches import Batch
from edgewise.data.folds import sample_labelled
from edgewise.data.reading import log
from edgewise.data.splits import Split, Splits, TargetScale, TextSplits
from edgewise.data.tables.labels import distinct_labels
from edgewise.data.tables.target_columns import TargetColumns
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
from edgewise.layers import NaiveBayes, Tokens
from edgewise.targets import Target, class_counts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Labelled = list[tuple[str, Any]]
"""Pairs of a text and its label, or of a text and the values of its targets."""
SPECIAL: tuple[Special, ...] = ("pad", "unk", "cls", "sep")
PARTS = ("train", "val", "test")


class LabelledParts(NamedTuple):
    """Labelled texts read from files.

    Attributes:
        parts: pairs of text and label, by split.
        files: file of each split, named in errors.
        column: column of the texts in a table.
        targets: target columns, if each text has several targets instead of one label.
    """

    parts: dict[str, Labelled]
    files: dict[str, str]
    column: str = "text"
    targets: TargetColumns | None = None


@dataclass(frozen=True)
class LabelledText(TextData):
    """Base class of text classification and tagging data.

    Attributes:
        packed: whether to pack the texts of a batch on one axis without padding, instead of padding
            them to the longest. The results are the same.
        word_dropout: probability of replacing a token in training by ``<mask>`` if the tokenizer
            has it, else by ``<unk>``.
        kind, vocab_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
    """

    kind: Kind = "wordpiece"
    vocab_size: int | None = 8000
    packed: bool = True
    word_dropout: float = 0.0

    provides: ClassVar[tuple[str, ...]] = ("vocab_size", "longest_text", "out_width")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("data.word_dropout", self.word_dropout, "choose for example 0.1")

    def shown(self, split: str, ids: Tensor, sizes: Tensor, tokenizer: Tokenizer) -> Tokens:
        """Return the input of the model for a batch of texts, with word dropout in training.

        Args:
            split: name of the split; word dropout applies to ``"train"`` only.
            ids: packed token ids, ``[N]``.
            sizes: length of each text, ``[B]``.
            tokenizer: tokenizer of the data set.
        """
        if self.word_dropout and split == "train":
            ids = drop_words(ids, self.word_dropout, hiding_id(tokenizer), special_ids(tokenizer))
        tokens = Tokens(ids, sizes)
        return tokens if self.packed else tokens.padded(special_id(tokenizer, "pad"))

    def text_splits(
        self,
        splits: dict[str, Split],
        tokenizer: Tokenizer,
        preprocessing: dict[str, Any],
        targets: tuple[Target, ...] = (),
    ) -> TextSplits:
        """Return the loaded data set, with the model arguments that the data determine.

        Args:
            splits: the splits, by name.
            tokenizer: tokenizer of the texts.
            preprocessing: values that prediction needs, such as the label names in ``"labels"``.
            targets: descriptions of the targets, if a text has several targets instead of a label.
        """
        lengths = [part.lengths for part in splits.values() if part.lengths is not None]
        sizes = {
            "vocab_size": tokenizer.get_vocab_size(),
            "longest_text": max(int(each.max()) for each in lengths),
            "out_width": sum(one.width for one in targets) or len(preprocessing["labels"]),
        }
        train, val, test = (splits[name] for name in PARTS)
        return TextSplits(
            sizes,
            replace(train, target_scale=TargetScale.of(targets)),
            val,
            test,
            self.batch_size,
            tokenizer,
            preprocessing=preprocessing,
            targets=targets,
        )


@dataclass(frozen=True)
class LabelledSentences(LabelledText):
    """Base class of text classification data; sentences are ``<cls> tokens <sep>``.

    Attributes:
        max_length: maximum number of tokens per sentence, with special tokens; 0 for no limit.
        labelled: number of training sentences to use, a random sample; 0 for all. The vocabulary
            is always built from all training sentences.
        split_seed: random seed of the sample; independent of a recipe's seed.
        naive_bayes: fit a naive Bayes classifier to the training sentences. A model from random
            weights combines its logits with those of this classifier
            (:class:`edgewise.layers.NaiveBayes`). A model with ``--from`` or class weights,
            several labels of a text, and numbers do not use it.
        packed, word_dropout: see :class:`LabelledText`.
        kind, vocab_size, lowercase, tokenizer, batch_size: see :class:`TextData`.
    """

    max_length: int = 0
    labelled: int = 0
    split_seed: int = 0
    naive_bayes: bool = False

    names: ClassVar[Mapping[str, str]] = {}
    """Dict from a label in the file, such as ``"1"``, to its name in predictions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least("max_length", 0, 128)
        self.at_least("labelled", 0, 1000)

    @abstractmethod
    def parts(self) -> LabelledParts:
        """Return the sentences of each split."""

    def load(self) -> Splits:
        parts, files, column, columns = self.parts()
        labels = []
        if not columns:
            distinct = (label for _, label in parts["train"])
            labels = distinct_labels(distinct, "data.target", files["train"])
        tokenizer = self.make_tokenizer((text for text, _ in parts["train"]), SPECIAL)
        train = parts["train"]
        sample = sample_labelled(len(train), self.labelled, self.split_seed, "sentences")
        parts = {**parts, "train": [train[i] for i in sample.tolist()]}
        targets: tuple[Target, ...] = ()
        if columns:
            targets = columns.describe(
                torch.tensor([values for _, values in parts["train"]], dtype=torch.double)
            )
        splits = {}
        counts: tuple[int, ...] = ()
        values: dict[str, Any] = {"text": column}
        for name, found in parts.items():
            ids, sizes = encode_all(tokenizer, [text for text, _ in found], first="cls", last="sep")
            texts = PackedTexts(ids, sizes)
            num_long = int((sizes > self.max_length).sum()) if self.max_length else 0
            if num_long:
                texts = texts.cut(self.max_length)
                log.info(
                    f"data.max_length: {num_long} of {len(sizes)} texts of {name} are longer than "
                    f"{self.max_length} tokens, and are cut to their first {self.max_length}"
                )
            target = (
                torch.tensor([values for _, values in found], dtype=torch.double)
                if columns
                else numbered(found, labels, files[name])
            )
            splits[name] = self._split(name, texts, target, tokenizer)
            if name == "train" and not columns:
                counts = class_counts(target, len(labels))
                if self.naive_bayes:
                    counted = NaiveBayes.fit(Tokens(texts.ids, texts.sizes), target, len(labels))
                    values |= {f"naive_bayes.{part}": x for part, x in counted.counted().items()}
        values["labels"] = [self.names.get(label, label) for label in labels]
        loaded = self.text_splits(splits, tokenizer, values, targets)
        return replace(loaded, class_counts=counts)

    def _split(self, name: str, texts: PackedTexts, target: Tensor, tokenizer: Tokenizer) -> Split:
        def make(index: Tensor) -> Batch:
            tokens = self.shown(name, *texts.take(index), tokenizer)
            return Batch((tokens,), target[index])

        return Split(len(texts), make, lengths=texts.sizes)


def numbered(found: Labelled, labels: list[str], file: str) -> Tensor:
    """Return the index of the label of each text, ``[N]``.

    Args:
        found: pairs of text and label.
        labels: known labels, in the order of their indices.
        file: file of the texts, for the error.

    Raises:
        ArgumentError: a label is unknown; the error names the file.
    """
    index_of = {label: index for index, label in enumerate(labels)}
    for text, label in found:
        if label not in index_of:
            raise ArgumentError(
                file,
                expected=f"one of the labels of the training split, {', '.join(labels)}",
                got=f"{label!r} for the text {text[:40]!r}",
                remedy="correct the label, or add training sentences with this label",
            )
    return torch.tensor([index_of[label] for _, label in found])
