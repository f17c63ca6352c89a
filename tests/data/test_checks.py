"""Data that cannot be trained on are refused before training."""

from __future__ import annotations

import pytest
import torch

from edgewise.data.checks import check_features, check_labels, check_splits
from tests.errors import refused


def test_nan_and_infinity_by_column():
    features = torch.ones(5, 4)
    features[0, 1] = features[3, 1] = float("nan")
    features[2, 3] = float("inf")
    with refused(
        "features",
        expected="finite",
        got="3 NaN or infinite values (column 1: 2, column 3: 1)",
        remedy="drop or fill",
    ):
        check_features(features)
    check_features(torch.zeros(0, 4))


def test_many_columns_are_counted():
    with refused("features", expected="", got="and 5 more columns", remedy=""):
        check_features(torch.full((1, 10), torch.nan))


@pytest.mark.parametrize(("wrong", "place"), [(-1, 0), (3, 2)])
def test_labels(wrong, place):
    labels = torch.tensor([0, 1, 2])
    labels[place] = wrong
    got = f"1 others, first {wrong} at example {place}"
    with refused("labels", expected="from 0 to 2", got=got, remedy="without gaps"):
        check_labels(labels, 3)


def test_splits():
    with refused("train, test", expected="without", got="2 common examples, first 1", remedy=""):
        check_splits(
            train=torch.tensor([0, 1, 2]), val=torch.tensor([5]), test=torch.tensor([2, 1])
        )
    with refused("val", expected="at least one", got="none", remedy="share"):
        check_splits(train=torch.tensor([0]), val=torch.tensor([], dtype=torch.long))
