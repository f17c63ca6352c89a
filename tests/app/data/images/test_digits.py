"""The digits: shapes, scale, split, and refusals."""

from __future__ import annotations

import pytest
import torch

from edgewise.app.kinds.images import Digits
from edgewise.app.kinds.images.data import warped
from tests.errors import refused

pytest.importorskip("sklearn")


def everything(loader):
    batches = list(loader)
    return torch.cat([b.inputs[0] for b in batches]), torch.cat([b.target for b in batches])


def test_images_and_what_the_model_must_know():
    splits = Digits(batch_size=50).load()
    assert splits.model_arguments == {"image_size": 8, "channels": 1, "out_width": 10}
    assert set(splits.model_arguments) == set(Digits.provides)
    batch = next(iter(splits.loaders(0)["train"]))
    assert batch.inputs[0].shape == (50, 1, 8, 8)
    assert batch.inputs[0].dtype == torch.float32
    images, _ = everything(splits.loaders(0)["test"])
    assert (images.min(), images.max()) == (0, 1)


def test_split_is_complete_disjoint_and_has_each_digit_in_proportion():
    loaders = Digits(val=0.1, test=0.2).load().loaders(0)
    parts = {name: everything(loader) for name, loader in loaders.items()}
    sizes = {name: len(labels) for name, (_, labels) in parts.items()}
    assert sizes == {"train": 1257, "val": 180, "test": 360}
    from sklearn.datasets import load_digits

    known = {image.tobytes() for image in (load_digits().images / 16).astype("float32")}
    seen = [image.numpy().tobytes() for images, _ in parts.values() for image in images[:, 0]]
    assert set(seen) == known
    assert len(seen) == 1797
    for _, labels in parts.values():
        share = labels.bincount(minlength=10) / len(labels)
        assert share.max() - share.min() < 0.02


def test_split_belongs_to_its_own_seed():
    def labels(data, seed):
        return everything(data.load().loaders(seed)["test"])[1]

    assert torch.equal(labels(Digits(), 0), labels(Digits(), 1))
    assert not torch.equal(labels(Digits(), 0), labels(Digits(split_seed=1), 0))


def test_warp_changes_training_images_alone_and_not_beyond_recognition():
    plain, bent = (Digits(warp=warp).load().loaders(0) for warp in (0, 0.1))
    for name in ("val", "test"):
        assert torch.equal(everything(plain[name])[0], everything(bent[name])[0])
    before, after = (everything(loaders["train"]) for loaders in (plain, bent))
    assert torch.equal(before[1], after[1])
    assert not torch.equal(before[0], after[0])
    assert not torch.equal(everything(bent["train"])[0], after[0]), "differently every time"
    assert torch.corrcoef(torch.stack([before[0].flatten(), after[0].flatten()]))[0, 1] > 0.8


def test_warp_of_nothing_is_nothing():
    images = torch.rand(3, 1, 8, 8)
    assert torch.allclose(warped(images, 0.0), images, atol=1e-6)


def test_warp_out_of_range():
    with refused("data.warp", expected="from 0", got="-0.1", remedy="0.1"):
        Digits(warp=-0.1)


@pytest.mark.parametrize("shares", [{"val": 0}, {"test": 1.0}, {"val": 0.5, "test": 0.5}])
def test_shares_that_leave_nothing(shares):
    with refused("data.val, data.test", expected="above 0", got="and", remedy="0.1"):
        Digits(**shares)


def test_batch_size():
    with refused("data.batch_size", expected="at least 1", got="0", remedy="64"):
        Digits(batch_size=0)
