"""Small checks of single arguments; each refuses what cannot be used, and NaN is in no range.

What a whole call of :func:`edgewise.attend` has to agree on is checked in ``checks.py``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from numbers import Integral
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from edgewise.errors import ArgumentError, unknown_name

P = ParamSpec("P")
T = TypeVar("T")

SHARES = {"dropout", "drop_node", "alpha"}
"""Arguments that are shares of what there is, from none to all."""
SHOWN = 5
"""Columns that an error lists before it only counts."""


def check_choice(argument: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not listed; the error begins with the nearest one that is."""
    known = tuple(known)
    if name not in known:
        raise unknown_name(argument, str(name), known)


def check_given(argument: str, value: T | None, expected: str, remedy: str) -> T:
    """Refuse ``None``, or something empty, where this call needs a value; gives the value."""
    if value is None or (isinstance(value, (str, tuple, list)) and not value):
        raise ArgumentError(argument, expected=expected, got="none", remedy=remedy)
    return value


def check_named(argument: str, value: T | None, expected: str) -> T:
    """Refuse an empty field that names a user's own data, which has no default; gives it."""
    return check_given(argument, value, expected, f"name it with --{argument}")


def check_count(argument: str, value: object, least: int, remedy: str) -> None:
    """Refuse all but integers from ``least`` on."""
    good = isinstance(value, Integral) and int(value) >= least
    _check(good, argument, f"an integer of at least {least}", value, remedy)


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


def check_probability(argument: str, value: float, remedy: str) -> None:
    """Refuse what is no probability, from 0 to 1."""
    _check(0 <= value <= 1, argument, "a probability from 0 to 1", value, remedy)


def check_seed(argument: str, value: int) -> None:
    """Refuse what is no seed of PyTorch's, NumPy's and Python's random numbers alike."""
    expected = f"an integer from 0 to {2**32 - 1}"
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


def check_divides(argument: str, part: int, whole: int, what: str, remedy: str) -> None:
    """Refuse parts that do not go into the whole, such as heads into a width."""
    good = part >= 1 and whole % part == 0
    _check(good, argument, f"a divisor of {what} {whole}", part, remedy)


def check_features(features: Tensor) -> None:
    """Refuse NaN and infinity in ``[N, F, ...]``; the error counts them by column."""
    wrong = ~features.flatten(1).isfinite()
    if not wrong.any():
        return
    counts = wrong.sum(0)
    columns = counts.nonzero().flatten().tolist()
    listed = ", ".join(f"column {c}: {int(counts[c])}" for c in columns[:SHOWN])
    more = f" and {len(columns) - SHOWN} more columns" if len(columns) > SHOWN else ""
    raise ArgumentError(
        "features",
        expected="finite numbers",
        got=f"{int(counts.sum())} NaN or infinite values ({listed}{more})",
        remedy="drop or fill these values before training",
    )


def check_type(argument: str, features: Tensor, weight: Tensor) -> None:
    """Refuse features of another type than the weight that reads them.

    Autocast brings both to its own type, but for float64, which it leaves as it is.
    """
    both = features.dtype, weight.dtype
    if both[0] == both[1]:
        return
    if torch.is_autocast_enabled(features.device.type) and torch.float64 not in both:
        return
    raise ArgumentError(
        argument,
        expected=f"features in {weight.dtype}, as the model's weights are",
        got=described(features),
        remedy=f"convert them with .to({weight.dtype}), or the model with .to({features.dtype})",
    )


def check_labels(labels: Tensor, classes: int, argument: str = "labels") -> None:
    """Refuse labels that are not from 0 to ``classes - 1``; the error names the first."""
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        first = int(wrong.nonzero()[0, 0])
        raise ArgumentError(
            argument,
            expected=f"whole numbers from 0 to {classes - 1}",
            got=f"{int(wrong.sum())} others, first {int(labels[first])} at example {first}",
            remedy="number the classes from 0 without gaps",
        )


def check_splits(**splits: Tensor) -> None:
    """Refuse splits, as indices of examples, that are empty or have an example in common."""
    for name, index in splits.items():
        if not len(index):
            raise ArgumentError(
                name,
                expected="at least one example",
                got="none",
                remedy=f"give the split a larger share, such as --data.{name} 0.3, or bring more",
            )
    for (one, a), (other, b) in combinations(splits.items(), 2):
        shared = sorted(set(a.tolist()) & set(b.tolist()))
        if shared:
            raise ArgumentError(
                f"{one}, {other}",
                expected="splits without a common example",
                got=f"{len(shared)} common examples, first {shared[0]}",
                remedy="take them out of one of the two",
            )


def checked(**least: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A function whose numbers are refused where they are out of their range, by their names.

    An integer is at least 1, or what ``least`` says of it, and so is each of a pair; one of
    ``SHARES`` is from 0 to 1, and any other number is above 0, or as ``least`` says. So a model is
    written without a line for each of its sizes.

    Args:
        least: the least value of a parameter, where it is not 1, or above 0.

    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        kinds = {name: str(p.annotation) for name, p in signature.parameters.items()}

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if kinds[name].startswith("int") and value is not None:
                    pair = "tuple" in kinds[name] and isinstance(value, (tuple, list))
                    for size in value if pair else (value,):
                        check_count(name, size, least.get(name, 1), "choose a larger one")
                elif name in SHARES or name.endswith("_dropout"):
                    check_probability(name, value, "choose 0.1, say")
                elif kinds[name] == "float" and name in least:
                    check_least(name, value, least[name], "choose a larger one")
                elif kinds[name] == "float":
                    check_positive(name, value, "choose a larger one")
            return function(*args, **kwargs)

        return wrapper

    return decorate


def described(value: object) -> str:
    """What came where a tensor of some form was expected: its type and shape."""
    if isinstance(value, Tensor):
        layout = "" if value.layout is torch.strided else f", {value.layout}"
        return f"{value.dtype} of shape {list(value.shape)}{layout}"
    return type(value).__name__


def _check(good: bool, argument: str, expected: str, value: object, remedy: str) -> None:
    if not good:
        raise ArgumentError(argument, expected=expected, got=repr(value), remedy=remedy)
