"""Handwritten digits: 70,000 images of MNIST, and 1797 images of 8×8 pixels of scikit-learn.

Sources: LeCun et al., Gradient-based learning applied to document recognition, 1998 (MNIST);
Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998 (its test set).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise._utils.arguments import (
    check_features,
    check_labels,
    check_range,
    check_shares,
    check_splits,
)
from edgewise._utils.errors import require
from edgewise.app.files.files import find_files
from edgewise.app.files.reading import read_bytes
from edgewise.app.kinds.images.data import ImageData, bright_on_dark, pixels, warped_split
from edgewise.app.train.splits import Split, Splits

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE, MNIST_SIDE = 8, 28  # Height and width in pixels.
CLASSES = 10
MNIST_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist"
MNIST_FILES = {"train": "train", "test": "t10k"}
VALIDATED = 5000  # Number of validation images of MNIST.


@dataclass(frozen=True)
class DigitImages(ImageData):
    """Base class of square grey images with bright digits on a dark background."""

    side: ClassVar[int]

    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:  # noqa: ARG002
        return bright_on_dark(pixels(image, self.side, self.side, color=False) / 255)

    def splits(self, train: Split, val: Split, test: Split, batch_size: int) -> Splits:
        """Return the splits with the model arguments and the label names of digits."""
        sizes = {"image_size": self.side, "channels": 1, "out_width": CLASSES}
        labels = {"labels": [str(digit) for digit in range(CLASSES)]}
        return Splits(sizes, train, val, test, batch_size, preprocessing=labels)


@dataclass(frozen=True)
class Digits(DigitImages):
    """Images ``[B, 1, 8, 8]`` from 0 to 1, with the digit as the class.

    Attributes:
        val, test: fractions of the images used for validation and test, stratified by digit.
        split_seed: random seed of the split; independent of a recipe's seed, so that all runs are
            tested on the same images.
        batch_size: images per batch.
        warp: strength of the random affine augmentation of training images: 0.1 rotates, scales,
            shears and translates them by up to a tenth of their size.

    Example:
        >>> from edgewise.app.kinds.images import Digits
        >>> splits = Digits().load()
        >>> splits.model_arguments  # determined by the data
        {'image_size': 8, 'channels': 1, 'out_width': 10}
        >>> batch = next(iter(splits.loaders(seed=0)["train"]))
        >>> batch.inputs[0].shape, batch.target.shape
        (torch.Size([64, 1, 8, 8]), torch.Size([64]))
    """

    comes_with = "scikit-learn"

    val: float = 0.1
    test: float = 0.2
    split_seed: int = 0
    batch_size: int = 64
    warp: float = 0.0

    side: ClassVar[int] = SIDE

    def __post_init__(self) -> None:
        held_out = {"data.val": self.val, "data.test": self.test}
        check_shares(held_out, "choose for example 0.1 and 0.2")
        check_range("data.batch_size", self.batch_size, "choose for example 64", least=1)
        check_range("data.warp", self.warp, "choose for example 0.1", least=0, below=1)

    def load(self) -> Splits:
        train, val, test = read_digits(self.val, self.test, self.split_seed)
        splits = warped_split(*train, self.warp), warped_split(*val), warped_split(*test)
        return self.splits(*splits, self.batch_size)


class LabelledDigits(NamedTuple):
    """Images ``[N, 1, 8, 8]`` from 0 to 1 and digits ``[N]``."""

    images: Tensor
    labels: Tensor


def read_digits(val: float, test: float, split_seed: int) -> tuple[LabelledDigits, ...]:
    """Return the training, validation and test images, stratified by digit."""
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
    rest, test_index = split(range(len(labels)), test_size=test, stratify=labels)
    train_index, val_index = split(rest, test_size=val / (1 - test), stratify=labels[rest])
    indices = [torch.tensor(index) for index in (train_index, val_index, test_index)]
    check_splits(**dict(zip(("train", "val", "test"), indices, strict=True)))
    return tuple(LabelledDigits(images[index], labels[index]) for index in indices)


@dataclass(frozen=True)
class Mnist(DigitImages):
    """Images ``[B, 1, 28, 28]`` from 0 to 1, with the digit as the class.

    The last 5,000 of the 60,000 training images are the validation set.

    Attributes:
        warp: strength of the random affine augmentation of training images: 0.1 rotates, scales,
            shears and translates them by up to a tenth of their size.
        batch_size: images per batch.
    """

    folders = ("MNIST",)

    warp: float = 0.0
    batch_size: int = 64

    side: ClassVar[int] = MNIST_SIDE

    def __post_init__(self) -> None:
        check_range("data.warp", self.warp, "choose for example 0.1", least=0, below=1)
        check_range("data.batch_size", self.batch_size, "choose for example 64", least=1)

    def load(self) -> Splits:
        (images, labels), (test_images, test_labels) = read_mnist("train"), read_mnist("test")
        num_train = len(images) - VALIDATED
        return self.splits(
            warped_split(images[:num_train, None], labels[:num_train], self.warp),
            warped_split(images[num_train:, None], labels[num_train:]),
            warped_split(test_images[:, None], test_labels),
            self.batch_size,
        )


def read_mnist(split: str) -> tuple[Tensor, Tensor]:
    """Return the images ``[N, 28, 28]`` (uint8) and digits ``[N]`` of ``"train"`` or ``"test"``."""
    # No dependency of Edgewise reads the idx format. The checksums are verified first, so the
    # headers of 16 bytes (images) and 8 bytes (labels) are skipped.
    headers = {"images-idx3": 16, "labels-idx1": 8}
    names = [f"{file}-{kind}-ubyte.gz" for file in MNIST_FILES.values() for kind in headers]
    raw = find_files("MNIST", {name: f"{MNIST_ADDRESS}/{name}" for name in names})
    images, labels = (
        torch.tensor(
            np.frombuffer(
                read_bytes(raw / f"{MNIST_FILES[split]}-{kind}-ubyte.gz"), np.uint8, offset=size
            )
        )
        for kind, size in headers.items()
    )
    return images.view(-1, MNIST_SIDE, MNIST_SIDE), labels.long()
