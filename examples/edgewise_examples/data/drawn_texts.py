"""Base class of synthetic texts that test long-range dependencies."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from edgewise.arguments import check_count
from edgewise.batches import Batch
from edgewise.data.splits import Data, Splits
from edgewise.layers import Tokens
from edgewise_examples.data.drawn_splits import drawn_splits


@dataclass(frozen=True)
class DrawnTexts(Data):
    """Texts of one length, and tokens to predict at some positions.

    Training texts are sampled in every epoch; validation and test texts are fixed.

    Attributes:
        length: number of tokens of a text.
        symbols: number of different symbols.
        count: number of training texts per epoch.
        tested: number of validation texts, and of test texts.
        split_seed: seed of the validation and test texts.
        batch_size: number of texts per batch.
    """

    length: int
    symbols: int
    count: int = 3200
    tested: int = 500
    split_seed: int = 0
    batch_size: int = 16

    provides: ClassVar[tuple[str, ...]] = ("vocab_size", "longest_text")

    def __post_init__(self) -> None:
        for name in ("symbols", "count", "tested", "batch_size"):
            check_count(f"data.{name}", getattr(self, name), 1, "choose a larger number")

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Vocabulary size."""

    @abstractmethod
    def draw(self, rows: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Sample texts ``[rows, length]``, with positions ``[P]`` and targets ``[rows, P]``."""

    @abstractmethod
    def asked(self, given: list[int]) -> tuple[Tensor, int]:
        """Return the prompt ``[T]`` for given tokens, and the number of tokens to generate.

        Args:
            given: tokens of the user.

        Raises:
            ArgumentError: unknown tokens, or a wrong number of tokens.
        """

    def load(self) -> Splits:
        def rows(count: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
            texts, places, found = self.draw(count, generator)
            return texts, places.expand(count, -1), found

        return drawn_splits(
            {"vocab_size": self.vocabulary, "longest_text": self.length},
            rows,
            self._batch,
            count=self.count,
            tested=self.tested,
            split_seed=self.split_seed,
            batch_size=self.batch_size,
        )

    def _batch(self, texts: Tensor, places: Tensor, found: Tensor) -> Batch:
        rows = torch.arange(len(texts))[:, None] * self.length
        return Batch((Tokens(texts), (rows + places).flatten()), found.flatten())
