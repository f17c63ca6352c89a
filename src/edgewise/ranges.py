"""Refusals of numbers out of their range; NaN is in none."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import ParamSpec, TypeVar

from edgewise.errors import ArgumentError

P = ParamSpec("P")
T = TypeVar("T")

SHARES = {"dropout", "drop_node", "alpha"}
"""Arguments that are shares of what there is, from none to all."""


def check_least(argument: str, value: float, least: float, remedy: str) -> None:
    """Refuse a number below ``least``."""
    _check(value >= least, argument, f"at least {least}", value, remedy)


def check_positive(argument: str, value: float, remedy: str) -> None:
    """Refuse 0 and below."""
    _check(value > 0, argument, "a number above 0", value, remedy)


def check_from_zero(argument: str, value: float, remedy: str) -> None:
    """Refuse a number below 0."""
    _check(value >= 0, argument, "a number from 0", value, remedy)


def check_share(argument: str, value: float, remedy: str) -> None:
    """Refuse a share of which nothing is left, or less than none."""
    _check(0 <= value < 1, argument, "a share from 0 to below 1", value, remedy)


def check_seed(argument: str, value: int) -> None:
    """Refuse what is no seed of PyTorch's, NumPy's and Python's random numbers alike."""
    expected = f"a whole number from 0 to {2**32 - 1}"
    _check(0 <= value < 2**32, argument, expected, value, "choose another, such as 0")


def check_shares(held_out: Mapping[str, float], remedy: str) -> None:
    """Refuse shares, by their arguments, that leave nothing to train on."""
    values = held_out.values()
    if not (all(value > 0 for value in values) and sum(values) < 1):
        raise ArgumentError(
            ", ".join(held_out),
            expected="shares above 0 that leave something to train on",
            got=" and ".join(map(str, values)),
            remedy=remedy,
        )


def checked(**least: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function whose numbers are refused where they are out of their range, by their names.

    A whole number is at least 1, or what ``least`` says of it; one of ``SHARES`` is from 0 to 1,
    and any other number is above 0. So a model is written without a line for each of its sizes.

    Args:
        least: the least value of a parameter, where it is not 1.

    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        kinds = {name: str(p.annotation) for name, p in signature.parameters.items()}

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if kinds[name].startswith("int") and value is not None:
                    for size in value if isinstance(value, tuple) else (value,):
                        _check_size(name, size, least.get(name, 1))
                elif name in SHARES:
                    _check(0 <= value <= 1, name, "a share from 0 to 1", value, "choose 0.1, say")
                elif kinds[name] == "float":
                    check_positive(name, value, "choose a larger one")
            return function(*args, **kwargs)

        return wrapper

    return decorate


def _check_size(name: str, value: int, least: int) -> None:
    expected = f"a whole number, at least {least}"
    _check(
        isinstance(value, Integral) and value >= least, name, expected, value, "choose a larger one"
    )


def _check(good: bool, argument: str, expected: str, value: float, remedy: str) -> None:
    if not good:
        raise ArgumentError(argument, expected=expected, got=repr(value), remedy=remedy)
