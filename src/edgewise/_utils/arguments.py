"""Checks of single arguments. A failed check raises ArgumentError; NaN fails every range check.

``attention/attend.py`` checks that the arguments of :func:`edgewise.attend` match each other.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from numbers import Integral
from typing import Any, ParamSpec, TypeVar, get_type_hints

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, counted, unknown_name
from edgewise._utils.limits import LIMITS

P = ParamSpec("P")
T = TypeVar("T")

PROBABILITIES = {"dropout", "drop_node", "alpha"}
"""Names of model arguments that are probabilities, from 0 to 1."""
STEPS = {"depth", "depths", "hops", "num_hashes", "output_hops", "rounds", "steps", "views"}
"""Names of model arguments that count repetitions; so do names that end in ``_depth``."""
SHOWN = 5
"""Maximum number of columns that an error lists."""


def check_choice(argument: str, name: str, choices: Iterable[str]) -> None:
    """Raise ArgumentError, which suggests the most similar name, unless ``name`` is a choice."""
    choices = tuple(choices)
    if name not in choices:
        raise unknown_name(argument, str(name), choices)


def check_given(argument: str, value: T | None, expected: str, remedy: str = "") -> T:
    """Return the value; raise ArgumentError if it is None, or an empty string, list or tuple."""
    if value is None or (isinstance(value, (str, tuple, list)) and not value):
        remedy = remedy or f"name {expected} with --{argument}"
        raise ArgumentError(argument, expected=expected, got="none", remedy=remedy)
    return value


def check_range(
    argument: str,
    value: Any,
    remedy: str,
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    integer: bool = False,
) -> None:
    """Raise ArgumentError unless the value is a number, or an integer, between these bounds."""
    valid = not integer or (isinstance(value, Integral) and not isinstance(value, bool))
    bounds = "" if above is None else f" above {above}"
    valid = valid and (above is None or value > above)
    if least is not None:
        bounds = f" of at least {least}" if most is None and below is None else f" from {least}"
        valid = valid and value >= least
    if most is not None:
        bounds += f" to {most}" if above is None else f" and at most {most}"
        valid = valid and value <= most
    if below is not None:
        bounds += f" to below {below}" if above is None else f" and below {below}"
        valid = valid and value < below
    if not valid:
        kind = "an integer" if integer else "a number"
        raise ArgumentError(argument, expected=kind + bounds, got=repr(value), remedy=remedy)


def check_seed(argument: str, value: int) -> None:
    """Raise ArgumentError unless the value is a valid seed for PyTorch, NumPy and Python."""
    remedy = "choose another seed, such as 0"
    check_range(argument, value, remedy, least=0, most=2**32 - 1, integer=True)


def check_shares(held_out: Mapping[str, float], remedy: str) -> None:
    """Raise ArgumentError unless the held-out fractions are positive and sum to less than 1."""
    values = held_out.values()
    if not (all(value > 0 for value in values) and sum(values) < 1):
        raise ArgumentError(
            ", ".join(held_out),
            expected="fractions above 0 that sum to less than 1, to leave training data",
            got=" and ".join(map(str, values)),
            remedy=remedy,
        )


def check_divides(argument: str, divisor: int, number: int, what: str, remedy: str) -> None:
    """Raise ArgumentError unless ``divisor`` divides ``number``, which the error calls ``what``."""
    if divisor < 1 or number % divisor:
        expected = f"a divisor of {what} {number}"
        raise ArgumentError(argument, expected=expected, got=repr(divisor), remedy=remedy)


def check_even(argument: str, value: int, why: str) -> None:
    """Raise ArgumentError if an integer is odd; the error gives the reason ``why``."""
    if value % 2:
        raise ArgumentError(
            argument,
            expected=f"an even number, because {why}",
            got=repr(value),
            remedy=f"add 1 to {argument}",
        )


def check_features(features: Tensor) -> None:
    """Raise ArgumentError with counts by column if ``[N, F, ...]`` contains NaN or infinity."""
    invalid = ~features.flatten(1).isfinite()
    if not invalid.any():
        return
    counts = invalid.sum(0)
    columns = counts.nonzero().flatten().tolist()
    listed = ", ".join(f"column {c}: {int(counts[c])}" for c in columns[:SHOWN])
    if len(columns) > SHOWN:
        listed += f" and {counted(len(columns) - SHOWN, 'more column')}"
    raise ArgumentError(
        "features",
        expected="finite numbers",
        got=f"{counted(int(counts.sum()), 'NaN or infinite value')} ({listed})",
        remedy="drop or fill the NaN and infinite values before training",
    )


def check_type(argument: str, features: Tensor, weight: Tensor) -> None:
    """Raise ArgumentError for different dtypes, unless autocast will convert them."""
    types = features.dtype, weight.dtype
    if types[0] == types[1]:
        return
    if torch.is_autocast_enabled(features.device.type) and torch.float64 not in types:
        return
    raise ArgumentError(
        argument,
        expected=f"features in {weight.dtype}, the type of the model's weights",
        got=describe(features),
        remedy=f"convert the features with .to({weight.dtype}), or the model with "
        f".to({features.dtype})",
    )


def check_same_shape(outputs: Tensor, target: Tensor) -> None:
    """Raise ArgumentError if outputs and targets have different shapes, which would broadcast."""
    if outputs.shape != target.shape:
        raise ArgumentError(
            "outputs",
            expected=f"one number for each target, shape {list(target.shape)}",
            got=describe(outputs),
            remedy="reshape the outputs or the targets, for example with .view_as(target)",
        )


def check_labels(labels: Tensor, classes: int) -> None:
    """Raise ArgumentError unless all labels ``[N]`` are from 0 to ``classes - 1``."""
    invalid = (labels < 0) | (labels >= classes)
    if invalid.any():
        first = int(invalid.nonzero()[0, 0])
        raise ArgumentError(
            "labels",
            expected=f"integers from 0 to {classes - 1}",
            got=f"{int(invalid.sum())} outside of this range; the first is {int(labels[first])}, "
            f"at example {first}",
            remedy="number the classes from 0 without gaps",
        )


def check_splits(**splits: Tensor) -> None:
    """Raise ArgumentError if a split is empty, or two splits have an example in common."""
    for name, index in splits.items():
        if not len(index):
            raise ArgumentError(
                name,
                expected=f"at least one example in the {name} split",
                got="none",
                remedy=f"add {name} examples, or change the options of the split, such as "
                "--data.val",
            )
    for (name_a, a), (name_b, b) in combinations(splits.items(), 2):
        common = sorted(set(a.tolist()) & set(b.tolist()))
        if common:
            raise ArgumentError(
                f"{name_a}, {name_b}",
                expected="two splits that have no example in common",
                got=f"{counted(len(common), 'common example')}, first {common[0]}",
                remedy="remove the common examples from one of the two splits",
            )


def checked(**least: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that checks the ranges of a function's integer and float arguments.

    Integers, also in tuples, must be at least 1 or their bound in ``least``, and those in ``STEPS``
    at most the limit ``model_steps``. Arguments in ``PROBABILITIES`` or named ``*_dropout`` must be
    from 0 to 1, other floats above 0 or at least their bound.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = inspect.signature(function)
        types = {name: str(p.annotation) for name, p in signature.parameters.items()}

        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            for name, value in signature.bind(*args, **kwargs).arguments.items():
                if types[name].startswith("int") and value is not None:
                    several = "tuple" in types[name] and isinstance(value, (tuple, list))
                    bound = least.get(name, 1)
                    for size in value if several else (value,):
                        remedy = f"set {name} to an integer of at least {bound}"
                        check_range(name, size, remedy, least=bound, integer=True)
                        if name in STEPS or name.endswith("_depth"):
                            LIMITS["model_steps"].check(size, name)
                elif value is None and types[name].endswith("| None"):
                    continue
                elif name in PROBABILITIES or name.endswith("_dropout"):
                    remedy = f"set {name} for example to 0.1"
                    check_range(name, value, remedy, least=0, most=1)
                elif types[name] == "float" and name in least:
                    remedy = f"set {name} to a number of at least {least[name]}"
                    check_range(name, value, remedy, least=least[name])
                elif types[name] == "float":
                    check_range(name, value, f"set {name} to a number above 0", above=0)
            return function(*args, **kwargs)

        return wrapper

    return decorate


def checked_factory(model: Callable[P, T], **least: int) -> Callable[P, T]:
    """Return a function that checks the arguments of a model class and builds it.

    It has the signature, type hints and docstring of the class, and the name of its module.
    """

    def build(*args: P.args, **kwargs: P.kwargs) -> T:
        return model(*args, **kwargs)

    name = model.__module__.rpartition(".")[2]
    attributes: dict[str, Any] = {
        "__signature__": inspect.signature(model).replace(return_annotation=model.__name__),
        "__annotations__": get_type_hints(model.__init__) | {"return": model},
        "__doc__": model.__doc__,
        "__module__": model.__module__,
        "__name__": name,
        "__qualname__": name,
        "__wrapped__": model,
    }
    for attribute, value in attributes.items():
        setattr(build, attribute, value)
    return checked(**least)(build)


def describe(value: object) -> str:
    """Describe a value for an error message: dtype and shape of a tensor, else the type's name."""
    if isinstance(value, Tensor):
        layout = "" if value.layout is torch.strided else f", {value.layout}"
        return f"{value.dtype} of shape {list(value.shape)}{layout}"
    return type(value).__name__
