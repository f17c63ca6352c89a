"""Rows of digits: what stands where, what is asked, and that no test digit was trained on."""

from __future__ import annotations

import pytest
import torch
from edgewise_examples import data

from edgewise.app.kinds.images.digits import read_digits
from tests.errors import refused

pytest.importorskip("sklearn")
PARTS = dict(zip(("train", "val", "test"), read_digits(0.1, 0.2, 0), strict=True))


def digits_of(images: torch.Tensor) -> torch.Tensor:
    """``[B, places, 64]`` pixels."""
    return images[:, 0].unflatten(-1, (-1, 8)).movedim(-2, 1).flatten(2)


@pytest.mark.parametrize("asked", [0, 2])
def test_the_target_is_the_digit_at_the_place_that_is_asked_about(asked: int) -> None:
    splits = data.digit_rows(places=3, asked=asked, count=20, tested=20, batch_size=20).load()
    assert splits.model_arguments["image_size"] == (8, 24)
    for name, loader in splits.loaders(0).items():
        images, labels = PARTS[name]
        (batch,) = loader
        rows = digits_of(batch.inputs[0])
        assert rows.shape == (20, 3, 64)
        for row, target in zip(rows, batch.target, strict=True):
            same = (images.flatten(1) == row[asked]).all(1).nonzero().flatten()
            assert len(same) > 0, "of this split's own digits"
            assert labels[same[0]] == target


def test_no_digit_is_in_two_splits() -> None:
    sizes = [len(part.labels) for part in PARTS.values()]
    assert sum(sizes) == 1797
    alone = {tuple(image.flatten().tolist()) for part in PARTS.values() for image in part.images}
    assert len(alone) == 1797


def test_training_rows_are_new_in_every_epoch_and_test_rows_are_not() -> None:
    loaders = data.digit_rows(count=8, tested=8, batch_size=8).load().loaders(0)
    drawn = {}
    for name in ("train", "test"):
        epochs = []
        for epoch in (0, 1, 0):
            loaders[name].set_epoch(epoch)
            epochs.append(next(iter(loaders[name])).inputs[0])
        drawn[name] = epochs
    assert torch.equal(drawn["train"][0], drawn["train"][2])
    assert not torch.equal(drawn["train"][0], drawn["train"][1])
    assert torch.equal(drawn["test"][0], drawn["test"][1])


def test_a_place_beyond_the_row() -> None:
    with refused("data.asked", expected="0 to 3", got="4", remedy="choose"):
        data.digit_rows(places=4, asked=4)
