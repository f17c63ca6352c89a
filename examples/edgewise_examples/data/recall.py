"""Synthetic texts in which the last token must recall a distant key."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise_examples.data.drawn_texts import DrawnTexts


@dataclass(frozen=True)
class Recall(DrawnTexts):
    """Texts of random symbols that contain one key; the last token, the query, must predict it.

    Attributes:
        keys: number of different keys; accuracy at chance level is 1 / keys.
        distance: minimum number of tokens from the key to the query.
        length, symbols, count, tested, split_seed, batch_size: see :class:`DrawnTexts`.
    """

    length: int = 512
    symbols: int = 16
    keys: int = 8
    distance: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("data.keys", self.keys, "choose a larger number", least=1, integer=True)
        if not 0 < self.distance < self.length:
            raise ArgumentError(
                "data.distance",
                expected=f"a number from 1 to {self.length - 1}, less than data.length",
                got=repr(self.distance),
                remedy="choose a shorter distance, or a longer text",
            )

    @property
    def vocabulary(self) -> int:
        return self.keys + 1 + self.symbols

    def draw(self, rows: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
        query = self.keys
        noise = (rows, self.length)
        texts = torch.randint(query + 1, self.vocabulary, noise, generator=generator)
        key = torch.randint(self.keys, (rows, 1), generator=generator)
        position = torch.randint(self.length - self.distance, (rows, 1), generator=generator)
        texts.scatter_(1, position, key)
        texts[:, -1] = query
        return texts, torch.tensor([self.length - 1]), key

    def asked(self, text: list[int]) -> tuple[Tensor, int]:
        """Return the text as a tensor, and 1, because only the key is predicted."""
        query, tokens = self.keys, set(range(self.vocabulary))
        good = len(text) == self.length and set(text) <= tokens and text[-1] == query
        if not good or sum(token < query for token in text) != 1:
            raise ArgumentError(
                "input",
                expected=f"{self.length} numbers: one key from 0 to {query - 1}, noise from "
                f"{query + 1} to {self.vocabulary - 1}, and {query} at the end",
                got=f"{len(text)} numbers from {min(text)} to {max(text)}, with {text[-1]} at "
                "the end",
                remedy="write a text of this form",
            )
        return torch.tensor(text), 1
