"""Image captioning: rows of handwritten digits, with captions such as "three seven"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.kinds.images.data import ImageData, bright_on_dark, pixels
from edgewise.app.kinds.images.digits import MNIST_SIDE as SIDE
from edgewise.app.kinds.images.digits import read_mnist
from edgewise.app.train import Batch, Split, Splits, WritingBatch
from edgewise.app.train.sampled import SampledSplit

if TYPE_CHECKING:
    from PIL.Image import Image

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PAD, BEGIN, END, FIRST = 0, 1, 2, 3
"""Token ids of padding, begin, end and the digit 0; digit d has the id ``FIRST + d``."""


@dataclass(frozen=True)
class CaptionDigits(ImageData):
    """Images of ``places`` squares in a row; ``least`` to ``places`` of them show an MNIST digit.

    Training images are sampled anew in every epoch. Validation and test images are fixed. They use
    the last 5,000 training digits and the test digits of MNIST, which are not used for training.

    The inputs of a batch are ``(images [B, 1, 28, 28 · places], ids [B, T])``, where ``ids`` are
    the tokens of the captions with a begin token in front. The targets ``[M]`` are the next tokens
    at all positions that are not padding.

    Attributes:
        places: number of squares in a row.
        least: minimum number of digits.
        jitter: maximum shift of a digit in pixels, vertically and horizontally.
        count: number of training images per epoch.
        tested: number of validation images, and of test images.
        split_seed: seed of the validation and test images.
        batch_size: number of images per batch.
    """

    section = "Sequences"

    places: int = 4
    least: int = 2
    jitter: int = 2
    count: int = 20_000
    tested: int = 2000
    split_seed: int = 0
    batch_size: int = 64

    provides: ClassVar[tuple[str, ...]] = (
        "image_size",
        "channels",
        "vocab_size",
        "max_length",
    )

    def __post_init__(self) -> None:
        for name, least in (("count", 1), ("tested", 1), ("batch_size", 1), ("jitter", 0)):
            check_range(f"data.{name}", getattr(self, name), "choose a larger number", least=least)
        if not 1 <= self.least <= self.places:
            raise ArgumentError(
                "data.least, data.places",
                expected="1 ≤ data.least ≤ data.places",
                got=f"data.least={self.least} and data.places={self.places}",
                remedy="choose for example data.least=2 and data.places=4",
            )

    def load(self) -> Splits:
        images, labels = read_mnist("train")
        test_images, test_labels = read_mnist("test")
        num_train = len(images) - len(images) // 12
        train = LabelledDigits(images[:num_train], labels[:num_train])
        val, test = (
            LabelledDigits(images[num_train:], labels[num_train:]),
            LabelledDigits(test_images, test_labels),
        )
        sizes = {
            "image_size": (SIDE, SIDE * self.places),
            "channels": 1,
            "vocab_size": FIRST + len(DIGITS),
            "max_length": self.places + 1,
        }

        def draw(index: Tensor, generator: Generator) -> Batch:
            return self._made(train, self._plan(len(index), train, generator))

        def fixed(digits: LabelledDigits, seed: int) -> Split:
            plan = self._plan(self.tested, digits, Generator().manual_seed(seed))
            return Split(self.tested, lambda index: self._made(digits, plan.of(index)))

        return Splits(
            sizes,
            SampledSplit.of(draw, self.count, self.batch_size),
            fixed(val, self.split_seed),
            fixed(test, self.split_seed + 1),
            batch_size=self.batch_size,
        )

    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:  # noqa: ARG002
        # Pad a shorter row with empty squares on the right.
        width = max(1, min(round(image.width * SIDE / image.height), SIDE * self.places))
        squares = bright_on_dark(pixels(image, SIDE, width, color=False) / 255)
        return F.pad(squares, (0, SIDE * self.places - width))

    def asked(self, images: Tensor) -> WritingBatch:
        """Return a batch for generating captions of the images ``[B, 1, H, W]``."""
        nothing = torch.zeros(len(images), self.places, dtype=torch.long)
        return captioned(images, nothing, nothing.bool())

    def _plan(self, count: int, digits: LabelledDigits, generator: Generator) -> Plan:
        shape = (count, self.places)
        number = torch.randint(self.least, self.places + 1, (count, 1), generator=generator)
        there = torch.rand(shape, generator=generator).argsort(1).argsort(1) < number
        which = torch.randint(len(digits.labels), shape, generator=generator)
        shifts = 2 * self.jitter + 1
        return Plan(there, which, torch.randint(shifts, (2, *shape), generator=generator))

    def _made(self, digits: LabelledDigits, plan: Plan) -> Batch:
        padded = F.pad(digits.images[plan.which], [self.jitter] * 4)
        down, right = plan.moved[..., None] + torch.arange(SIDE)
        row, square = torch.meshgrid(*map(torch.arange, plan.which.shape), indexing="ij")
        moved = padded[
            row[..., None, None], square[..., None, None], down[..., None], right[..., None, :]
        ]
        squares = moved * plan.there[..., None, None] / 255
        images = squares.transpose(1, 2).flatten(2)[:, None]
        return captioned(images, digits.labels[plan.which], plan.there)


@dataclass(frozen=True)
class LabelledDigits:
    """MNIST images ``[N, 28, 28]`` and their labels ``[N]``."""

    images: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Plan:
    """Contents of B images with P squares: which squares have a digit, which digit, its shift."""

    there: Tensor
    which: Tensor
    moved: Tensor

    def of(self, index: Tensor) -> Plan:
        """Return the plan of the images with these indices."""
        return Plan(self.there[index], self.which[index], self.moved[:, index])


def captioned(images: Tensor, labels: Tensor, there: Tensor) -> WritingBatch:
    """Return a batch of images with their captions.

    The caption names the labels ``[B, P]`` of those squares for which ``there`` is True.
    """
    count = there.sum(1)
    step = torch.arange(there.shape[1] + 1)
    # Move the squares with a digit to the front, and keep their order.
    order = (~there).byte().argsort(dim=1, stable=True)
    words = F.pad(FIRST + labels.gather(1, order), (0, 1))
    asked = words.where(step < count[:, None], torch.where(step == count[:, None], END, PAD))
    read = F.pad(asked[:, :-1], (1, 0), value=BEGIN)
    real = step <= count[:, None]
    return WritingBatch(
        (images, read),
        asked[real],
        select=real.flatten().nonzero()[:, 0],
        prompt=torch.full((len(images), 1), BEGIN),
        end=END,
        padding=PAD,
        references=tuple(spelled(asked)),
        decode=spelled,
    )


def spelled(ids: Tensor) -> list[str]:
    """Return the captions for token ids ``[B, T]``; each ends before the first non-digit token."""
    texts = []
    for row in ids.tolist():
        stop = next((i for i, token in enumerate(row) if token < FIRST), len(row))
        texts.append(" ".join(DIGITS[token - FIRST] for token in row[:stop]))
    return texts
