"""What all data sets of texts have in common: the tokenizer, and the fields that choose it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.arguments import check_choice, check_least, check_shares
from edgewise.data.splits import Data
from edgewise.data.text.tokenizer import (
    KINDS,
    Kind,
    Special,
    load_tokenizer,
    train_tokenizer,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class TextData(Data, ABC):
    """Texts as numbers.

    Attributes:
        kind: of tokens; see :func:`edgewise.data.text.tokenizer.train_tokenizer`.
        vocabulary_size: the most tokens; all characters or words where it is ``None``.
        lowercase: whether upper case is lost.
        tokenizer: a ``tokenizer.json``, or a run folder with one, to be used instead of training
            one on the texts; the three fields above then count for nothing.
        batch_size: examples in a batch.

    """

    kind: Kind = "characters"
    vocabulary_size: int | None = None
    lowercase: bool = False
    tokenizer: str = ""
    batch_size: int = 32

    def __post_init__(self) -> None:
        check_choice("data.kind", self.kind, KINDS)
        self.at_least("batch_size", 1, 32)
        if self.vocabulary_size is not None:
            self.at_least("vocabulary_size", 1, 8000)

    def at_least(self, name: str, least: int, good: int) -> None:
        """Refuse a smaller value of this field."""
        check_least(f"data.{name}", getattr(self, name), least, f"choose for example {good}")

    def shares(self, *names: str) -> None:
        """Refuse shares of the data that leave nothing to train on."""
        held_out = {f"data.{name}": getattr(self, name) for name in names}
        check_shares(held_out, "choose for example 0.1")

    def make_tokenizer(self, texts: Iterable[str], special: Sequence[Special] = ()) -> Tokenizer:
        """The one that ``tokenizer`` names, or one trained on these texts."""
        if self.tokenizer:
            return load_tokenizer(Path(self.tokenizer))
        options = {"special": special, "lowercase": self.lowercase}
        return train_tokenizer(texts, self.kind, self.vocabulary_size, **options)  # type: ignore[arg-type]
