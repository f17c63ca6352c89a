"""Synthetic texts whose second half repeats the first half."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from edgewise._utils.errors import ArgumentError
from edgewise_examples.data.drawn_texts import DrawnTexts


@dataclass(frozen=True)
class Duplication(DrawnTexts):
    """Texts ``0 w 0 w``, where w is a random word of symbols from 1; the second w is predicted.

    The task is from Reformer (Kitaev et al., 2020), where texts have 1,024 tokens and there are 127
    symbols.

    Attributes:
        length, symbols, count, tested, split_seed, batch_size: see :class:`DrawnTexts`.
    """

    length: int = 128
    symbols: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length % 2 or self.length < 4:
            raise ArgumentError(
                "data.length",
                expected="an even number of at least 4",
                got=repr(self.length),
                remedy="choose for example 128",
            )

    @property
    def vocabulary(self) -> int:
        return self.symbols + 1

    def draw(self, rows: int, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
        half = self.length // 2
        word = torch.randint(1, self.vocabulary, (rows, half - 1), generator=generator)
        once = torch.cat([word.new_zeros(rows, 1), word], 1)
        texts = torch.cat([once, once], 1)
        return texts, torch.arange(half, self.length - 1), word

    def asked(self, text: list[int]) -> tuple[Tensor, int]:
        """Return the prompt ``0 w 0`` and the length of w, where w are the given tokens."""
        count = self.length // 2 - 1
        if len(text) != count or not all(1 <= token <= self.symbols for token in text):
            raise ArgumentError(
                "input",
                expected=f"{count} numbers from 1 to {self.symbols}, the text to repeat",
                got=f"{len(text)} numbers from {min(text)} to {max(text)}",
                remedy="write as many numbers as the texts in training have, in this range",
            )
        return torch.tensor([0, *text, 0]), count
