"""Base class of synthetic texts in which distant tokens depend on each other."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_range
from edgewise.app.train import Batch, Data, Splits
from edgewise.layers import Tokens
from edgewise_examples.data.drawn_splits import drawn_splits


@dataclass(frozen=True)
class DrawnTexts(Data):
    """Random texts of equal length, with tokens to predict at some positions.

    Training texts are sampled anew in every epoch. Validation and test texts are fixed.

    Attributes:
        length: number of tokens in a text.
        symbols: number of different symbols that the text consists of.
        count: number of training texts per epoch.
        tested: number of validation texts, and of test texts.
        split_seed: seed of the validation and test texts.
        batch_size: number of texts per batch.
    """

    section = "Sequences"

    length: int
    symbols: int
    count: int = 3200
    tested: int = 500
    split_seed: int = 0
    batch_size: int = 16

    provides: ClassVar[tuple[str, ...]] = ("vocab_size", "longest_text")

    def __post_init__(self) -> None:
        for name in ("symbols", "count", "tested", "batch_size"):
            check_range(
                f"data.{name}", getattr(self, name), "choose a larger number", least=1, integer=True
            )

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of different tokens."""

    @abstractmethod
    def draw(self, rows: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return random texts ``[rows, length]``, and what to predict in them.

        These are P positions ``[P]``, the same for all texts, and the targets ``[rows, P]``.
        """

    @abstractmethod
    def asked(self, text: list[int]) -> tuple[Tensor, int]:
        """Return the prompt ``[T]`` for a user's input, and the number of tokens to generate.

        Args:
            text: tokens that the user has typed.

        Raises:
            ArgumentError: a token is unknown, or the number of tokens is wrong.
        """

    def load(self) -> Splits:
        def rows(count: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
            texts, positions, targets = self.draw(count, generator)
            return texts, positions.expand(count, -1), targets

        return drawn_splits(
            {"vocab_size": self.vocabulary, "longest_text": self.length},
            rows,
            self._batch,
            count=self.count,
            tested=self.tested,
            split_seed=self.split_seed,
            batch_size=self.batch_size,
        )

    def _batch(self, texts: Tensor, positions: Tensor, targets: Tensor) -> Batch:
        rows = torch.arange(len(texts))[:, None] * self.length
        return Batch((Tokens(texts), (rows + positions).flatten()), targets.flatten())
