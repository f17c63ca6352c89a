"""Base classes of labelled texts, and of text classification."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise.app.files.labels import distinct_labels
from edgewise.app.files.reading import log
from edgewise.app.files.target_columns import TargetColumns
from edgewise.app.files.targets import class_counts
from edgewise.app.train.batches import Batch
from edgewise.app.train.folds import sample_labelled
from edgewise.app.train.splits import Split, Splits
from edgewise.app.train.text.labelled import Labelled, LabelledText, numbered
from edgewise.app.train.text.naive_bayes import NaiveBayes
from edgewise.app.train.text.packed_texts import PackedTexts
from edgewise.app.train.text.tokenizer import Special, encode_all
from edgewise.layers import Tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL: tuple[Special, ...] = ("pad", "unk", "cls", "sep")


class LabelledSplits(NamedTuple):
    """Texts of each split with a label, or with ``targets`` a list of values. ``column`` and the
    file are for errors.
    """

    texts: dict[str, Labelled]
    files: dict[str, str]
    column: str = "text"
    targets: TargetColumns | None = None


@dataclass(frozen=True)
class LabelledSentences(LabelledText):
    """Base class of text classification data; sentences are ``<cls> tokens <sep>``.

    Attributes:
        max_length: maximum number of tokens per sentence, with special tokens; 0 for no limit.
        labelled: number of training sentences to use, a random sample; 0 for all. The vocabulary
            is always built from all training sentences.
        split_seed: random seed of the sample; independent of a recipe's seed.
        naive_bayes: fit a naive Bayes classifier to the training sentences. A model from random
            weights combines its logits with those of this classifier, :class:`.NaiveBayes`. A
            model with ``--from`` or class weights, several labels of a text, and numbers do not
            use it.
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
    def read_splits(self) -> LabelledSplits:
        """Return the sentences of each split."""

    def load(self) -> Splits:
        sentences, files, column, columns = self.read_splits()
        train = sentences["train"]
        labels = []
        if not columns:
            labels = distinct_labels((label for _, label in train), "data.target", files["train"])
        tokenizer = self.make_tokenizer((text for text, _ in train), SPECIAL)
        sample = sample_labelled(len(train), self.labelled, self.split_seed, "sentences")
        sentences = {**sentences, "train": [train[i] for i in sample.tolist()]}
        targets = columns.describe(_numbers(sentences["train"])) if columns else ()
        splits = {}
        counts: tuple[int, ...] = ()
        values: dict[str, Any] = {"text": column}
        for name, rows in sentences.items():
            ids, sizes = encode_all(tokenizer, [text for text, _ in rows], first="cls", last="sep")
            texts = PackedTexts(ids, sizes)
            num_long = int((sizes > self.max_length).sum()) if self.max_length else 0
            if num_long:
                texts = texts.cut(self.max_length)
                log.info(
                    f"data.max_length: {num_long} of {len(sizes)} texts of {name} are longer than "
                    f"{self.max_length} tokens, and are cut to their first {self.max_length}"
                )
            target = _numbers(rows) if columns else numbered(rows, labels, files[name])
            splits[name] = self._split(name, texts, target, tokenizer)
            if name == "train" and not columns:
                counts = class_counts(target, len(labels))
                if self.naive_bayes:
                    counted = NaiveBayes.fit(Tokens(texts.ids, texts.sizes), target, len(labels))
                    values |= {f"naive_bayes.{key}": x for key, x in counted.counted().items()}
        values["labels"] = [self.names.get(label, label) for label in labels]
        loaded = self.text_splits(splits, tokenizer, values, targets)
        return replace(loaded, class_counts=counts)

    def _split(self, name: str, texts: PackedTexts, target: Tensor, tokenizer: Tokenizer) -> Split:
        def make(index: Tensor) -> Batch:
            tokens = self.shown(name, *texts.take(index), tokenizer)
            return Batch((tokens,), target[index])

        return Split(len(texts), make, lengths=texts.sizes)


def _numbers(rows: Labelled) -> Tensor:
    """Return the values of the targets of each text, ``[N, T]``."""
    return torch.tensor([values for _, values in rows], dtype=torch.double)
