"""Base of data sets of labelled texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.targets import Target
from edgewise.app.train.splits import Split, TargetScale, TextSplits
from edgewise.app.train.text.packed_texts import drop_words
from edgewise.app.train.text.text_data import TextData
from edgewise.app.train.text.tokenizer import Kind, hiding_id, special_id, special_ids
from edgewise.layers import Tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer


Labelled = list[tuple[str, Any]]
"""Pairs of a text and its label, or of a text and the values of its targets."""


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
        check_range(
            "data.word_dropout", self.word_dropout, "choose for example 0.1", least=0, below=1
        )

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
        train, val, test = (splits[name] for name in ("train", "val", "test"))
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
