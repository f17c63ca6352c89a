"""Checks of single arguments. A failed check raises ArgumentError; NaN fails every range check.

``checks.py`` checks that the arguments of :func:`edgewise.attend` match each other.
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


def check_choice(argument: str, name: str, known: Iterable[str]) -> None:
    """Raise ArgumentError unless ``name`` is one of the valid names ``known``.

    The error names ``argument`` and suggests the valid name that is most similar to ``name``.
    """
    known = tuple(known)
    if name not in known:
        raise unknown_name(argument, str(name), known)


def check_given(argument: str, value: T | None, expected: str, remedy: str) -> T:
    """Return the value; raise ArgumentError if it is None, or an empty string, list or tuple.

    Args:
        argument: name of the argument, for the error.
        value: value of the argument.
        expected: values that are accepted, for the error.
        remedy: instruction to the user, for the error.
    """
    if value is None or (isinstance(value, (str, tuple, list)) and not value):
        raise ArgumentError(argument, expected=expected, got="none", remedy=remedy)
    return value


def check_named(argument: str, value: T | None, expected: str) -> T:
    """Return the value of a required data option, such as --data.path.

    Args:
        argument: name of the option, without dashes.
        value: value of the option.
        expected: what the option must name, such as "a file of edges".

    Raises:
        ArgumentError: if the value is None or empty.
    """
    return check_given(argument, value, expected, f"name {expected} with --{argument}")


def check_count(argument: str, value: object, least: int, remedy: str) -> None:
    """Raise ArgumentError unless the value is an integer of at least ``least``.

    ``argument`` (the name) and ``remedy`` (an instruction to the user) are used in the error.
    """
    valid = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    _check(valid, argument, f"an integer of at least {least}", value, remedy)


def check_least(argument: str, value: float, least: float, remedy: str) -> None:
    """Raise ArgumentError if the value is below ``least``.

    ``argument`` (the name) and ``remedy`` (an instruction to the user) are used in the error.
    """
    _check(value >= least, argument, f"at least {least}", value, remedy)


def check_positive(argument: str, value: float, remedy: str) -> None:
    """Raise ArgumentError unless the value is above 0.

    ``argument`` (the name) and ``remedy`` (an instruction to the user) are used in the error.
    """
    _check(value > 0, argument, "a number above 0", value, remedy)


def check_from_zero(argument: str, value: float, remedy: str) -> None:
    """Raise ArgumentError if the value is below 0.

    ``argument`` (the name) and ``remedy`` (an instruction to the user) are used in the error.
    """
    _check(value >= 0, argument, "a number of at least 0", value, remedy)


def check_share(argument: str, value: float, remedy: str) -> None:
    """Raise ArgumentError unless the value is a fraction of at least 0 and below 1.

    ``argument`` (the name) and ``remedy`` (an instruction to the user) are used in the error.
    """
    _check(0 <= value < 1, argument, "a fraction from 0 to below 1", value, remedy)


def check_probability(argument: str, value: float, remedy: str) -> None:
    """Raise ArgumentError unless the value is a probability from 0 to 1.

    ``argument`` (the name) and ``remedy`` (an instruction to the user) are used in the error.
    """
    _check(0 <= value <= 1, argument, "a probability from 0 to 1", value, remedy)


def check_seed(argument: str, value: int) -> None:
    """Raise ArgumentError unless the value is a valid seed for PyTorch, NumPy and Python."""
    expected = f"an integer from 0 to {2**32 - 1}"
    _check(0 <= value < 2**32, argument, expected, value, "choose another seed, such as 0")


def check_shares(held_out: Mapping[str, float], remedy: str) -> None:
    """Raise ArgumentError unless the held-out fractions are positive and sum to less than 1.

    Args:
        held_out: fraction of the examples in each held-out split, by argument name.
        remedy: instruction to the user, for the error.
    """
    values = held_out.values()
    if not (all(value > 0 for value in values) and sum(values) < 1):
        raise ArgumentError(
            ", ".join(held_out),
            expected="fractions above 0 that sum to less than 1, to leave training data",
            got=" and ".join(map(str, values)),
            remedy=remedy,
        )


def check_divides(argument: str, part: int, whole: int, what: str, remedy: str) -> None:
    """Raise ArgumentError unless ``part`` divides ``whole``.

    Args:
        argument: name of the argument that ``part`` is the value of.
        part: divisor to check, such as the number of heads.
        whole: number to divide, such as the hidden size.
        what: name of ``whole`` for the error, such as "the width".
        remedy: instruction to the user, for the error.
    """
    valid = part >= 1 and whole % part == 0
    _check(valid, argument, f"a divisor of {what} {whole}", part, remedy)


def check_even(argument: str, value: int, why: str) -> None:
    """Raise ArgumentError if an integer is odd; the error gives the reason ``why``."""
    valid = value % 2 == 0
    _check(valid, argument, f"an even number, because {why}", value, f"add 1 to {argument}")


def check_features(features: Tensor) -> None:
    """Raise ArgumentError if features ``[N, F, ...]`` contain NaN or infinity.

    The error gives the number of such values in each column.
    """
    invalid = ~features.flatten(1).isfinite()
    if not invalid.any():
        return
    counts = invalid.sum(0)
    columns = counts.nonzero().flatten().tolist()
    listed = ", ".join(f"column {c}: {int(counts[c])}" for c in columns[:SHOWN])
    more = f" and {counted(len(columns) - SHOWN, 'more column')}" if len(columns) > SHOWN else ""
    raise ArgumentError(
        "features",
        expected="finite numbers",
        got=f"{counted(int(counts.sum()), 'NaN or infinite value')} ({listed}{more})",
        remedy="drop or fill the NaN and infinite values before training",
    )


def check_type(argument: str, features: Tensor, weight: Tensor) -> None:
    """Raise ArgumentError if features and the weight applied to them have different dtypes.

    Under autocast, different dtypes are allowed, except float64, which autocast does not convert.
    """
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
    """Raise ArgumentError unless all labels ``[N]`` are from 0 to ``classes - 1``.

    The error shows the first invalid label.
    """
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
    """Raise ArgumentError if a split is empty, or two splits have an example in common.

    Args:
        splits: indices of the examples of each split, by name.
    """
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

    Integers, and integers in tuples, must be at least 1, and those in ``STEPS`` at most the limit
    ``model_steps``. The arguments in ``PROBABILITIES``, and those whose name ends with
    ``_dropout``, must be from 0 to 1. Other floats must be above 0.

    Args:
        least: other lower bounds, by argument name; not for probabilities. A value equal to the
            bound is valid.
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
                        check_count(name, size, bound, remedy)
                        if name in STEPS or name.endswith("_depth"):
                            LIMITS["model_steps"].check(size, name)
                elif name in PROBABILITIES or name.endswith("_dropout"):
                    check_probability(name, value, f"set {name} for example to 0.1")
                elif types[name] == "float" and name in least:
                    remedy = f"set {name} to a number of at least {least[name]}"
                    check_least(name, value, least[name], remedy)
                elif types[name] == "float":
                    check_positive(name, value, f"set {name} to a number above 0")
            return function(*args, **kwargs)

        return wrapper

    return decorate


def checked_factory(model: Callable[P, T], **least: int) -> Callable[P, T]:
    """Return a function that checks the arguments of a model and builds it.

    Signature, type hints and docstring are those of the class, so that they are written once. The
    function is named after the module of the class, for example ``gat``.

    Args:
        model: class of the model.
        least: lower bounds by argument name; see :func:`checked`.
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


def _check(valid: bool, argument: str, expected: str, value: object, remedy: str) -> None:
    """Raise ArgumentError unless ``valid`` is true.

    Args:
        valid: whether the value is accepted.
        argument: name of the argument, for the error.
        expected: values that are accepted, for the error.
        value: value that the caller passed, for the error.
        remedy: instruction to the user, for the error.
    """
    if not valid:
        raise ArgumentError(argument, expected=expected, got=repr(value), remedy=remedy)
