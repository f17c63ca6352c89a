"""MNIST: 70,000 handwritten digits, 28×28 pixels, in the four files that LeCun published.

Source: LeCun et al., Gradient-based learning applied to document recognition, 1998.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor

from edgewise.arguments import check_labels
from edgewise.data.files import find_files, unreadable
from edgewise.data.reading import read_bytes
from edgewise.errors import ArgumentError

ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist"
PARTS = {"train": "train", "test": "t10k"}
FILES = [f"{p}-{k}-ubyte.gz" for p in PARTS.values() for k in ("images-idx3", "labels-idx1")]
SIDE, CLASSES = 28, 10


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
