"""Checks of single arguments: numbers at the ends of their ranges and beyond, names, data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from edgewise._utils.arguments import (
    check_choice,
    check_divides,
    check_features,
    check_given,
    check_labels,
    check_range,
    check_shares,
    check_splits,
    checked,
)
from tests.errors import refused

NAN, INF = float("nan"), float("inf")


def in_range(**bounds: Any) -> Callable[..., None]:
    return partial(check_range, **bounds)


def in_12(argument: str, value: int, remedy: str) -> None:
    check_divides(argument, value, 12, "the width", remedy)


@pytest.mark.parametrize(
    ("check", "expected", "good", "bad"),
    [
        (in_range(least=2), "a number of at least 2", [2, 2.5, INF], [1, 1.9, -INF]),
        (in_range(above=0), "a number above 0", [1e-9, 3, INF], [0, -1]),
        (in_range(least=0, below=1), "a number from 0 to below 1", [0, 0.999], [-1e-9, 1]),
        (in_range(least=0, most=1), "a number from 0 to 1", [0, 0.5, 1], [-1e-9, 1.001]),
        (in_range(above=0, most=1), "a number above 0 and at most 1", [1e-9, 1], [0, 1.001]),
        (
            in_range(least=2, integer=True),
            "an integer of at least 2",
            [2, np.int64(3)],
            [1, 2.0, "2", None],
        ),
        (in_12, "a divisor of the width 12", [1, 4, 12], [0, -3, 5]),
    ],
)
def test_ranges(check: Callable[..., None], expected: str, good: list, bad: list) -> None:
    for value in good:
        check("task.k", value, "choose 3")
    for value in [*bad, NAN]:
        with refused("task.k", expected=expected, got=repr(value), remedy="choose 3"):
            check("task.k", value, "choose 3")


@pytest.mark.parametrize("shares", [(0, 0.1), (0.1, -0.1), (0.5, 0.5), (NAN, 0.1), (0.1, NAN)])
def test_shares_leave_something(shares: tuple[float, float]) -> None:
    check_shares({"val": 0.3, "test": 0.6}, "choose 0.1")
    with refused(
        "val, test",
        expected="fractions above 0 that sum to less than 1, to leave training data",
        got=f"{shares[0]} and {shares[1]}",
        remedy="choose 0.1",
    ):
        check_shares(dict(zip(("val", "test"), shares, strict=True)), "choose 0.1")


@checked(types=0)
def made(width: int, *, types: int = 0, heads: int | None = None, dropout: float = 0.0) -> int:
    """A model, say."""
    return width + types + (heads or 0) + int(dropout)


def test_a_function_that_checks_its_arguments() -> None:
    assert made(1, types=0, heads=None, dropout=1) == 2
    assert made.__name__ == "made"
    assert made.__doc__ == "A model, say."
    bad = [("width", 0, "at least 1"), ("types", -1, "at least 0"), ("heads", 0, "at least 1")]
    for argument, value, expected in [*bad, ("dropout", 1.1, "from 0 to 1"), ("width", 1.0, "")]:
        with refused(argument, expected=expected, got=repr(value), remedy=f"set {argument}"):
            made(**{"width": 1, argument: value})


def test_a_number_may_be_0_where_that_is_said() -> None:
    @checked(penalty=0)
    def model(penalty: float, rate: float = 1.0) -> float:
        return penalty * rate

    assert model(0.0) == 0
    for argument, bad, expected in (("penalty", -0.1, "at least 0"), ("rate", 0.0, "above 0")):
        with refused(argument, expected=expected, got=repr(bad), remedy=f"set {argument}"):
            model(**{"penalty": 1.0, argument: bad})


def test_each_of_a_pair_is_checked() -> None:
    @checked()
    def image(size: int | tuple[int, int]) -> object:
        return size

    assert image((28, 112)) == (28, 112)
    for bad in ((28, 0), (28, 2.0)):
        with refused(
            "size", expected="an integer of at least 1", got=repr(bad[1]), remedy="set size"
        ):
            image(bad)


def test_names_and_what_is_missing() -> None:
    check_choice("how", "mean", ("mean", "sum"))
    with refused("how", expected="one of mean, sum", got="'men'", remedy="did you mean"):
        check_choice("how", "men", ("mean", "sum"))
    assert check_given("memory", 0, "a memory", "encode it") == 0
    for missing in (None, "", (), []):
        with refused("memory", expected="a memory", got="none", remedy="encode it"):
            check_given("memory", missing, "a memory", "encode it")


def test_nan_and_infinity_by_column() -> None:
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


def test_many_columns_are_counted() -> None:
    with refused("features", expected="", got="and 5 more columns", remedy=""):
        check_features(torch.full((1, 10), torch.nan))


@pytest.mark.parametrize(("wrong", "place"), [(-1, 0), (3, 2)])
def test_labels(wrong: int, place: int) -> None:
    labels = torch.tensor([0, 1, 2])
    labels[place] = wrong
    got = f"1 outside of this range; the first is {wrong}, at example {place}"
    with refused("labels", expected="from 0 to 2", got=got, remedy="without gaps"):
        check_labels(labels, 3)


def test_splits() -> None:
    with refused(
        "train, test", expected="no example in common", got="2 common examples, first 1", remedy=""
    ):
        check_splits(
            train=torch.tensor([0, 1, 2]), val=torch.tensor([5]), test=torch.tensor([2, 1])
        )
    with refused("val", expected="at least one", got="none", remedy="add val examples"):
        check_splits(train=torch.tensor([0]), val=torch.tensor([], dtype=torch.long))
