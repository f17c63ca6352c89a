"""The digits data set of scikit-learn: 1797 handwritten digits of 8×8 pixels.

Source: Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998 (its test set).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from edgewise.arguments import (
    check_features,
    check_labels,
    check_least,
    check_share,
    check_shares,
    check_splits,
)
from edgewise.data.images.image_data import ImageData, bright_on_dark, pixels
from edgewise.data.images.warping import warped_split
from edgewise.data.splits import Splits
from edgewise.errors import require

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE, CLASSES = 8, 10


@dataclass(frozen=True)
class Digits(ImageData):
    """Images ``[B, 1, 8, 8]`` from 0 to 1, with the digit as the class.

    Attributes:
        val, test: fractions of the images used for validation and test, stratified by digit.
        split_seed: random seed of the split; independent of a recipe's seed, so that all runs are
            tested on the same images.
        batch_size: images per batch.
        warp: strength of the random affine augmentation of training images: 0.1 rotates, scales,
            shears and translates them by up to a tenth of their size.
    """

    val: float = 0.1
    test: float = 0.2
    split_seed: int = 0
    batch_size: int = 64
    warp: float = 0.0

    def __post_init__(self) -> None:
        held_out = {"data.val": self.val, "data.test": self.test}
        check_shares(held_out, "choose for example 0.1 and 0.2")
        check_least("data.batch_size", self.batch_size, 1, "choose for example 64")
        check_share("data.warp", self.warp, "choose for example 0.1")

    def load(self) -> Splits:
        train, val, test = read_digits(self.val, self.test, self.split_seed)
        return Splits(
            {"image_size": SIDE, "channels": 1, "out_width": CLASSES},
            train=warped_split(*train, self.warp),
            val=warped_split(*val),
            test=warped_split(*test),
            batch_size=self.batch_size,
            preprocessing={"labels": [str(digit) for digit in range(CLASSES)]},
        )

    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:  # noqa: ARG002
        return bright_on_dark(pixels(image, SIDE, SIDE, color=False) / 255)


class Part(NamedTuple):
    """Images ``[N, 1, 8, 8]`` from 0 to 1 and digits ``[N]``."""

    images: Tensor
    labels: Tensor


def read_digits(val: float, test: float, split_seed: int) -> tuple[Part, Part, Part]:
    """Return the training, validation and test images, stratified by digit.

    Args:
        val: fraction of validation images.
        test: fraction of test images.
        split_seed: random seed of the split.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    require("sklearn", extra="train", purpose="the handwritten digits")
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    # Pixels are integers from 0 to 16.
    images = torch.as_tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.as_tensor(digits.target, dtype=torch.long)
    check_features(images)
    check_labels(labels, CLASSES)
    split = partial(train_test_split, random_state=split_seed)
    rest, tested = split(range(len(labels)), test_size=test, stratify=labels)
    trained, chosen = split(rest, test_size=val / (1 - test), stratify=labels[rest])
    parts = tuple(torch.tensor(index) for index in (trained, chosen, tested))
    check_splits(**dict(zip(("train", "val", "test"), parts, strict=True)))
    first, second, third = (Part(images[index], labels[index]) for index in parts)
    return first, second, third
