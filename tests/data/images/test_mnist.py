"""Files of MNIST."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch

from edgewise import data
from edgewise.data.images.mnist import read_idx, read_mnist
from tests.errors import refused
from tests.places import needs


def idx(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content))
    return path


def test_an_idx_file_by_hand(tmp_path: Path) -> None:
    head = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3])
    values = read_idx(idx(tmp_path / "a.gz", head + bytes(range(6))))
    assert values.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("content", "got"), [(b"\0\0\x0d\1\0\0\0\1\7", "0000"), (b"\0\0\x08\1\0\0\0\2\7", "1 bytes")]
)
def test_a_damaged_file_says_so(content: bytes, got: str, tmp_path: Path) -> None:
    path = idx(tmp_path / "a.gz", content)
    with refused(str(path), expected="idx", got=got, remedy="again"):
        read_idx(path)


def test_a_file_that_is_not_gzipped(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"plain")
    with refused(str(path), expected="gzip", got="gzip", remedy="again"):
        read_idx(path)


@needs("MNIST")
def test_digits_and_their_splits() -> None:
    splits = data.mnist(warp=0.1).load()
    assert [s.count for s in (splits.train, splits.val, splits.test)] == [55_000, 5_000, 10_000]
    images, labels = read_mnist("train")
    first = splits.val.make(torch.tensor([0, 4_999]))
    assert torch.equal(first.inputs[0][:, 0], images[[55_000, 59_999]] / 255)
    assert torch.equal(first.target, labels[[55_000, 59_999]])
    one = torch.tensor([3])
    twice = [splits.train.make(one).inputs[0] for _ in range(2)]
    assert not torch.equal(*twice), "training images are moved, otherwise each time"
