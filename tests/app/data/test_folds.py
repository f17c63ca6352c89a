"""Folds share no example, cover all of them, and respect classes and groups."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from edgewise.app.train.folds import Folds, deal
from tests.errors import refused

LABELS = [0] * 20 + [1] * 40
GROUPS = [f"g{i % 13}" for i in range(100)]


@pytest.mark.parametrize(
    ("how", "keys"), [("random", LABELS), ("stratified", LABELS), ("group", GROUPS)]
)
def test_every_example_is_tested_once_and_splits_share_none(how: str, keys: list) -> None:
    tested: list[int] = []
    for fold in range(5):
        split = Folds(5, fold, 0.2, seed=3).split(how, keys)
        everything = torch.cat(list(split.values())).tolist()
        assert sorted(everything) == list(range(len(keys)))
        tested += split["test"].tolist()
    assert sorted(tested) == list(range(len(keys)))


def test_stratified_folds_have_their_share_of_each_class() -> None:
    split = Folds(5, 1, 0.25, seed=0).split("stratified", LABELS)
    counts = {name: Counter(LABELS[i] for i in index.tolist()) for name, index in split.items()}
    assert counts == {"train": {0: 12, 1: 24}, "val": {0: 4, 1: 8}, "test": {0: 4, 1: 8}}


def test_a_group_is_in_one_split_only() -> None:
    for fold in range(5):
        split = Folds(5, fold, 0.2, seed=0).split("group", GROUPS)
        seen = [{GROUPS[i] for i in index.tolist()} for index in split.values()]
        assert sum(map(len, seen)) == len(set(GROUPS))


def test_groups_of_different_sizes_fill_the_parts_evenly() -> None:
    keys = [f"g{g}" for g in range(12) for _ in range(g + 1)]
    assert [len(part) for part in deal("group", keys, 3, seed=0)] == [26, 26, 26]


def test_the_seed_alone_decides() -> None:
    one, same, other = (deal("random", LABELS, 4, seed) for seed in (1, 1, 2))
    assert all(map(torch.equal, one, same))
    assert not all(map(torch.equal, one, other))


@pytest.mark.parametrize(("folds", "fold"), [(1, 0), (5, 5), (5, -1)])
def test_folds_that_do_not_exist_are_refused(folds: int, fold: int) -> None:
    with refused(
        "data.fold, data.folds", expected="at least 2", got=f"data.fold {fold}", remedy="0 to"
    ):
        Folds(folds, fold, 0.1, 0)


@pytest.mark.parametrize("val", [0, 0.6, float("nan")])
def test_a_share_to_validate_on_must_leave_some_to_train_on(val: float) -> None:
    with refused("data.val", expected="above 0", got=str(val), remedy="0.1"):
        Folds(5, 0, val, 0)


def test_an_empty_fold_is_refused() -> None:
    with refused("data.folds", expected="at least 3 groups", got="2", remedy="smaller data.folds"):
        deal("group", ["a", "a", "a", "b"], 3, 0)
    with refused("data.folds", expected="at least 3 rows", got="2", remedy="smaller data.folds"):
        deal("random", ["a", "b"], 3, 0)
    # Of ten rows nine are left to train and to validate on, a tenth of them to validate.
    with refused("data.val", expected="outside the test set", got="9", remedy="larger data.val"):
        Folds(10, 0, 0.1, 0).split("random", list(range(10)))


def test_an_unknown_way_to_split_is_refused() -> None:
    with refused("data.split", expected="group", got="'grup'", remedy="'group'"):
        deal("grup", LABELS, 3, 0)
