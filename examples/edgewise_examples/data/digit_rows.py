"""Rows of handwritten digits; the class of a row is the digit at one position.

How many layers are needed before a distant token can name this digit depends on the attention
graph. The digits are those of scikit-learn, with 8 × 8 pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_range, check_shares
from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.images.data import ImageData, bright_on_dark, pixels
from edgewise.app.kinds.images.digits import CLASSES, SIDE, LabelledDigits, read_digits
from edgewise.app.train import Batch, Split, Splits
from edgewise.app.train.sampled import SampledSplit

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class DigitRows(ImageData):
    """Image classification data set of rows of digits.

    Inputs are images ``[B, 1, 8, 8 · places]`` with values from 0 to 1. The target is the digit at
    position ``asked``. Training rows are sampled anew in every epoch. Validation and test rows are
    fixed, and use images of digits that are not used for training.

    Attributes:
        places: number of digits in a row.
        asked: position of the digit to predict, from 0 on the left.
        count: number of training rows per epoch.
        tested: number of validation rows, and of test rows.
        val: fraction of the digit images that are used only for validation rows.
        test: fraction of the digit images that are used only for test rows.
        split_seed: seed of the validation and test rows.
        batch_size: number of rows per batch.
    """

    places: int = 8
    asked: int = 0
    count: int = 3200
    tested: int = 1000
    val: float = 0.1
    test: float = 0.2
    split_seed: int = 0
    batch_size: int = 64

    def __post_init__(self) -> None:
        for name in ("places", "count", "tested", "batch_size"):
            check_range(f"data.{name}", getattr(self, name), "choose a larger number", least=1)
        held_out = {"data.val": self.val, "data.test": self.test}
        check_shares(held_out, "choose for example 0.1 and 0.2")
        if not 0 <= self.asked < self.places:
            raise ArgumentError(
                "data.asked",
                expected=f"a position in the row, from 0 to {self.places - 1}",
                got=repr(self.asked),
                remedy="choose one of these positions, or a larger data.places",
            )

    def load(self) -> Splits:
        train, val, test = read_digits(self.val, self.test, self.split_seed)

        def draw(index: Tensor, generator: Generator) -> Batch:
            return self._row(train, self._drawn(len(index), train, generator))

        def fixed(digits: LabelledDigits, seed: int) -> Split:
            drawn = self._drawn(self.tested, digits, Generator().manual_seed(seed))
            return Split(self.tested, lambda index: self._row(digits, drawn[index]))

        return Splits(
            {"image_size": (SIDE, SIDE * self.places), "channels": 1, "out_width": CLASSES},
            SampledSplit.of(draw, self.count, self.batch_size),
            fixed(val, self.split_seed),
            fixed(test, self.split_seed + 1),
            batch_size=self.batch_size,
            preprocessing={"labels": [str(digit) for digit in range(CLASSES)]},
        )

    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:  # noqa: ARG002
        return bright_on_dark(pixels(image, SIDE, SIDE * self.places, color=False) / 255)

    def _drawn(self, rows: int, digits: LabelledDigits, generator: Generator) -> Tensor:
        """Return the indices ``[rows, places]`` of random digits for each row."""
        return torch.randint(len(digits.labels), (rows, self.places), generator=generator)

    def _row(self, digits: LabelledDigits, which: Tensor) -> Batch:
        images = digits.images[which, 0].transpose(1, 2).flatten(2)[:, None]
        return Batch((images,), digits.labels[which[:, self.asked]])
