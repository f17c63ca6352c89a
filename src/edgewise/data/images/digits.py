"""Image classification of 1797 handwritten digits of 8×8 pixels, bundled with scikit-learn.

Source: Alpaydin and Kaynak, Optical recognition of handwritten digits, UCI, 1998 (its test part).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

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
from edgewise.batches import Batch
from edgewise.data.images.image_data import ImageData, bright_on_dark, pixels
from edgewise.data.images.warping import warped
from edgewise.data.splits import Split, Splits
from edgewise.errors import require

if TYPE_CHECKING:
    from PIL.Image import Image

CLASSES = 10
SIDE = 8


@dataclass(frozen=True)
class Digits(ImageData):
    """Images ``[B, 1, 8, 8]`` from 0 to 1 and their digit.

    Attributes:
        val, test: shares of the validation and test splits; each digit has its share in each.
        split_seed: which examples these are; apart from a recipe's seed, so that all its runs are
            tested on the same images.
        batch_size: images in a batch.
        warp: how much training images are turned, stretched, sheared and moved, differently every
            time; at 0.1 by up to a tenth of their size.

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
        require("sklearn", extra="train", purpose="the data set digits")
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        digits = load_digits()
        images = torch.as_tensor(digits.images, dtype=torch.float32)[:, None] / 16  # 17 grey levels
        labels = torch.as_tensor(digits.target, dtype=torch.long)
        check_features(images)
        check_labels(labels, CLASSES)
        split = partial(train_test_split, random_state=self.split_seed)
        rest, test = split(range(len(labels)), test_size=self.test, stratify=labels)
        val_size = self.val / (1 - self.test)
        train, val = split(rest, test_size=val_size, stratify=labels[rest])
        index = {name: torch.tensor(i) for name, i in (("train", train), ("val", val))}
        index["test"] = torch.tensor(test)
        check_splits(**index)
        return Splits(
            {"image_size": images.shape[-1], "channels": images.shape[1], "out_width": CLASSES},
            train=_part(images[index["train"]], labels[index["train"]], self.warp),
            val=_part(images[index["val"]], labels[index["val"]]),
            test=_part(images[index["test"]], labels[index["test"]]),
            batch_size=self.batch_size,
            fitted={"labels": [str(digit) for digit in range(CLASSES)]},
        )

    def to_input(self, image: Image, fitted: dict[str, Any]) -> Tensor:  # noqa: ARG002
        return bright_on_dark(pixels(image, SIDE, SIDE, color=False) / 255)


def _part(images: Tensor, labels: Tensor, warp: float = 0.0) -> Split:
    def make(index: Tensor) -> Batch:
        chosen = images[index]
        return Batch((warped(chosen, warp) if warp else chosen,), labels[index])

    return Split(len(labels), make)
