"""Texts that are drawn, to see what a model can reach: what they share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from edgewise.arguments import check_count
from edgewise.batches import Batch
from edgewise.data.sampled import drawn_splits
from edgewise.data.splits import Data, Splits
from edgewise.layers import Tokens


@dataclass(frozen=True)
class DrawnTexts(Data):
    """Texts of one length, and tokens to be named at some of their places.

    Training texts are drawn anew in every epoch; those of validation and test are drawn once.

    Attributes:
        length: tokens of a text.
        symbols: how many different tokens it is written with.
        count: training texts in an epoch.
        tested: texts to validate and to test on, each.
        split_seed: which texts these are.
        batch_size: texts in a batch.

    """

    length: int
    symbols: int
    count: int = 3200
    tested: int = 500
    split_seed: int = 0
    batch_size: int = 16

    provides: ClassVar[tuple[str, ...]] = ("vocabulary", "longest")

    def __post_init__(self) -> None:
        for name in ("symbols", "count", "tested", "batch_size"):
            check_count(f"data.{name}", getattr(self, name), 1, "choose a larger number")

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many tokens there are."""

    @abstractmethod
    def draw(self, rows: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Texts ``[rows, length]``, places ``[P]`` in each, and what is there ``[rows, P]``."""

    @abstractmethod
    def asked(self, given: list[int]) -> tuple[Tensor, int]:
        """What a finished model is given, ``[T]``, and how many tokens are to follow it.

        Args:
            given: the tokens of which a person wants to know what follows.

        Raises:
            ArgumentError: there are others, or fewer or more of them, than in the data.

        """

    def load(self) -> Splits:
        def rows(count: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
            texts, places, found = self.draw(count, generator)
            return texts, places.expand(count, -1), found

        return drawn_splits(
            {"vocabulary": self.vocabulary, "longest": self.length},
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
