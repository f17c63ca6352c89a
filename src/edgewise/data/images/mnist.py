"""MNIST: 70,000 images of handwritten digits, 28×28 pixels.

Source: LeCun et al., Gradient-based learning applied to document recognition, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from edgewise.arguments import check_least, check_share
from edgewise.data.files import find_files
from edgewise.data.images.image_data import ImageData, bright_on_dark, pixels
from edgewise.data.images.warping import warped_split
from edgewise.data.reading import read_bytes
from edgewise.data.splits import Splits

if TYPE_CHECKING:
    from PIL.Image import Image

ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist"
PARTS = {"train": "train", "test": "t10k"}
FILES = [f"{p}-{k}-ubyte.gz" for p in PARTS.values() for k in ("images-idx3", "labels-idx1")]
SIDE, CLASSES = 28, 10
VALIDATED = 5000


@dataclass(frozen=True)
class Mnist(ImageData):
    """Images ``[B, 1, 28, 28]`` from 0 to 1, with the digit as the class.

    The last 5,000 of the 60,000 training images are the validation set.

    Attributes:
        warp: strength of the random affine augmentation of training images: 0.1 rotates, scales,
            shears and translates them by up to a tenth of their size.
        batch_size: images per batch.
    """

    warp: float = 0.0
    batch_size: int = 64

    def __post_init__(self) -> None:
        check_share("data.warp", self.warp, "choose for example 0.1")
        check_least("data.batch_size", self.batch_size, 1, "choose for example 64")

    def load(self) -> Splits:
        (images, labels), (tests, answers) = read_mnist("train"), read_mnist("test")
        kept = len(images) - VALIDATED
        return Splits(
            {"image_size": SIDE, "channels": 1, "out_width": CLASSES},
            train=warped_split(images[:kept, None], labels[:kept], self.warp),
            val=warped_split(images[kept:, None], labels[kept:]),
            test=warped_split(tests[:, None], answers),
            batch_size=self.batch_size,
            preprocessing={"labels": [str(digit) for digit in range(CLASSES)]},
        )

    def to_input(self, image: Image, preprocessing: dict[str, Any]) -> Tensor:  # noqa: ARG002
        return bright_on_dark(pixels(image, SIDE, SIDE, color=False) / 255)


def read_mnist(part: str) -> tuple[Tensor, Tensor]:
    """Return the images ``[N, 28, 28]`` (uint8) and digits ``[N]`` of ``"train"`` or ``"test"``.

    No dependency of Edgewise reads the idx format, so NumPy is used: the headers have 16 bytes
        (images)
    and 8 bytes (labels), because the checksums matched.

    Raises:
        MissingDataError: a file is missing.
        ArgumentError: a file differs from the published one.
    """
    raw = find_files("MNIST", {name: f"{ADDRESS}/{name}" for name in FILES})
    images, labels = (
        torch.from_numpy(
            np.frombuffer(read_bytes(raw / f"{PARTS[part]}-{kind}-ubyte.gz"), np.uint8)[
                head:
            ].copy()
        )
        for kind, head in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return images.view(-1, SIDE, SIDE), labels.long()
