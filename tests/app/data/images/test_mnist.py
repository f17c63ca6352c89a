"""Files of MNIST."""

from __future__ import annotations

import torch

from edgewise.app.kinds.images import Mnist
from edgewise.app.kinds.images.digits import read_mnist
from tests.places import needs


@needs("MNIST")
def test_digits_and_their_splits() -> None:
    splits = Mnist(warp=0.1).load()
    assert [s.count for s in (splits.train, splits.val, splits.test)] == [55_000, 5_000, 10_000]
    images, labels = read_mnist("train")
    first = splits.val.make(torch.tensor([0, 4_999]))
    assert torch.equal(first.inputs[0][:, 0], images[[55_000, 59_999]] / 255)
    assert torch.equal(first.target, labels[[55_000, 59_999]])
    one = torch.tensor([3])
    twice = [splits.train.make(one).inputs[0] for _ in range(2)]
    assert not torch.equal(*twice), "training images are moved, otherwise each time"
