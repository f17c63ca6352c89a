"""Numbers at the ends of their ranges, and beyond; NaN lies in none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edgewise.ranges import (
    check_from_zero,
    check_least,
    check_positive,
    check_share,
    check_shares,
    checked,
)
from tests.errors import refused

NAN, INF = float("nan"), float("inf")


def at_least_2(argument: str, value: float, remedy: str) -> None:
    check_least(argument, value, 2, remedy)


@pytest.mark.parametrize(
    ("check", "expected", "good", "bad"),
    [
        (at_least_2, "at least 2", [2, 2.5, INF], [1, 1.9, -INF]),
        (check_positive, "a number above 0", [1e-9, 3, INF], [0, -1]),
        (check_from_zero, "a number from 0", [0, 0.5, INF], [-1e-9]),
        (check_share, "a share from 0 to below 1", [0, 0.999], [-1e-9, 1]),
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
        expected="shares above 0 that leave something to train on",
        got=f"{shares[0]} and {shares[1]}",
        remedy="choose 0.1",
    ):
        check_shares(dict(zip(("val", "test"), shares, strict=True)), "choose 0.1")


@checked(types=0)
def made(
    width: int | tuple[int, int], *, types: int = 0, heads: int | None = None, dropout: float = 0.0
) -> int:
    """A model, say."""
    return (
        sum(width if isinstance(width, tuple) else (width,)) + types + (heads or 0) + int(dropout)
    )


def test_a_function_that_checks_its_arguments() -> None:
    assert made(1, types=0, heads=None, dropout=1) == 2
    assert made((1, 2)) == 3
    with refused("width", expected="at least 1", got="0", remedy="choose"):
        made((1, 0))
    assert made.__name__ == "made"
    assert made.__doc__ == "A model, say."
    bad = [("width", 0, "at least 1"), ("types", -1, "at least 0"), ("heads", 0, "at least 1")]
    for argument, value, expected in [*bad, ("dropout", 1.1, "from 0 to 1"), ("width", 1.0, "")]:
        with refused(argument, expected=expected, got=repr(value), remedy="choose"):
            made(**{"width": 1, argument: value})
