"""Twelve thousand images of CIFAR-10."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from edgewise._utils.errors import MissingDataError
from edgewise.app.kinds.images import Cifar10
from tests.places import needs


@pytest.mark.slow
@needs("cifar10_12k")
def test_images_of_each_class_in_each_split() -> None:
    splits = Cifar10().load()
    assert splits.model_arguments == {"image_size": 32, "channels": 3, "out_width": 10}
    assert [splits.train.count, splits.val.count, splits.test.count] == [9000, 1000, 2000]
    # Every fifth of those to train on, as to read them all takes seconds.
    for split, step, each in ((splits.train, 5, None), (splits.val, 1, 100), (splits.test, 1, 200)):
        batch = split.make(torch.arange(0, split.count, step))
        counts = batch.target.bincount().tolist()
        assert counts == [each] * 10 if each else min(counts) > 120
        assert batch.inputs[0].mean().abs() < 0.05
    assert splits.preprocessing["labels"][:2] == ["airplane", "automobile"]


def test_what_to_do_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGEWISE_DATA", raising=False)
    monkeypatch.setenv("EDGEWISE_CACHE", str(tmp_path))
    with pytest.raises(MissingDataError, match="cifar10_12k/raw/train"):
        Cifar10().load()
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="no such folder"):
        Cifar10().load()
