"""MNIST: 70,000 handwritten digits, 28×28 pixels, in the four files that LeCun published.

Source: LeCun et al., Gradient-based learning applied to document recognition, 1998.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from edgewise.arguments import check_labels, check_least, check_share
from edgewise.data.files import find_files, unreadable
from edgewise.data.images.image_data import ImageData, bright_on_dark, pixels
from edgewise.data.images.warping import warped_split
from edgewise.data.reading import read_bytes
from edgewise.data.splits import Splits
from edgewise.errors import ArgumentError

if TYPE_CHECKING:
    from PIL.Image import Image

ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist"
PARTS = {"train": "train", "test": "t10k"}
FILES = [f"{p}-{k}-ubyte.gz" for p in PARTS.values() for k in ("images-idx3", "labels-idx1")]
SIDE, CLASSES = 28, 10
VALIDATED = 5000


@dataclass(frozen=True)
class Mnist(ImageData):
    """Images ``[B, 1, 28, 28]`` from 0 to 1 and their digit.

    The last 5,000 of the 60,000 training images are to validate on.

    Attributes:
        warp: how much training images are turned, stretched, sheared and moved, differently every
            time; at 0.1 by up to a tenth of their size.
        batch_size: images in a batch.

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
            fitted={"labels": [str(digit) for digit in range(CLASSES)]},
        )

    def to_input(self, image: Image, fitted: dict[str, Any]) -> Tensor:  # noqa: ARG002
        return bright_on_dark(pixels(image, SIDE, SIDE, color=False) / 255)


def read_mnist(part: str) -> tuple[Tensor, Tensor]:
    """Images ``[N, 28, 28]`` of bytes and digits ``[N]`` of ``train`` or ``test``.

    Raises:
        MissingDataError: a file is not there.
        ArgumentError: a file is damaged.
    """
    raw = find_files("MNIST", {name: f"{ADDRESS}/{name}" for name in FILES})
    files = [raw / f"{PARTS[part]}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    images, labels = map(read_idx, files)
    if images.shape[1:] != (SIDE, SIDE) or images.shape[:1] != labels.shape or not len(images):
        raise unreadable(
            files[0],
            expected=f"images of {SIDE}×{SIDE} pixels and a label for each in {files[1].name}",
            got=f"shapes {list(images.shape)} and {list(labels.shape)}",
        )
    check_labels(labels.long(), CLASSES, f"labels in {files[1]}")
    return images, labels.long()


def read_idx(path: Path) -> Tensor:
    """The bytes of an idx file, gzipped, in the shape that its head states.

    Raises:
        ArgumentError: it is not such a file, or cut off.
    """
    data = read_bytes(path)
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise _damaged(path, f"a beginning of {data[:4].hex()}")
    start = 4 + 4 * data[3]
    shape = [int.from_bytes(data[i : i + 4], "big") for i in range(4, start, 4)]
    if len(data) != start + math.prod(shape):
        raise _damaged(path, f"{len(data) - start} bytes for a shape of {shape}")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)[start:].reshape(shape)


def _damaged(path: Path, got: str) -> ArgumentError:
    expected = "an idx file of bytes: two zeros, 8, the number of dimensions, their sizes"
    return unreadable(path, expected=expected, got=got)
