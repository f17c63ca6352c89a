"""Base class of text data sets, with the options of the tokenizer."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from edgewise._utils.arguments import check_choice, check_range, check_shares
from edgewise._utils.errors import ArgumentError
from edgewise.app.train.splits import Data
from edgewise.app.train.text.tokenizer import KINDS, Kind, Special, load_tokenizer, train_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class TextData(Data, ABC):
    """Base class of text data sets.

    Attributes:
        kind: kind of tokens; see :func:`edgewise.app.train.text.tokenizer.train_tokenizer`.
        vocab_size: maximum vocabulary size; ``None`` for all characters or words.
        lowercase: convert texts to lower case.
        tokenizer: path of a ``tokenizer.json``, or of a run folder (files of a trained model), to
            use instead of training a tokenizer. kind, vocab_size and lowercase are then ignored.
        batch_size: batch size.
    """

    section = "Sequences"

    kind: Kind = "characters"
    vocab_size: int | None = None
    lowercase: bool = False
    tokenizer: str = ""
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_choice("data.kind", self.kind, KINDS)
        self.at_least("batch_size", 1, 32)
        if self.vocab_size is not None:
            self.at_least("vocab_size", 1, 8000)

    def at_least(self, name: str, least: int, good: int) -> None:
        """Check that field ``name`` is at least ``least``; the error suggests ``good`` instead."""
        check_range(f"data.{name}", getattr(self, name), f"choose for example {good}", least=least)

    def shares(self, *names: str) -> None:
        """Check that the fields with these names are fractions that leave training data."""
        held_out = {f"data.{name}": getattr(self, name) for name in names}
        check_shares(held_out, "choose for example 0.1")

    def make_tokenizer(self, texts: Iterable[str], special: Sequence[Special] = ()) -> Tokenizer:
        """Load the tokenizer of the field ``tokenizer``, or train one on the texts."""
        if self.tokenizer:
            return load_tokenizer(Path(self.tokenizer))
        options = {"special": special, "lowercase": self.lowercase}
        return train_tokenizer(texts, self.kind, self.vocab_size, **options)  # type: ignore[arg-type]


def check_some(name: str, stream: Tensor, needed: str = "tokens") -> None:
    """Check that a part of the text has tokens."""
    if not len(stream):
        train = name == "train"
        raise ArgumentError(
            "data.val" if train else f"data.{name}",
            expected=f"a fraction that leaves {needed}{' for training' if train else ''}",
            got="no tokens",
            remedy=f"choose a {'smaller' if train else 'larger'} fraction, or give more text",
        )
