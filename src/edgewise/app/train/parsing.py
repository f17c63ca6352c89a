"""Conversion of recipe field values between text, JSON and the type of the field."""

from __future__ import annotations

import math
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from torch import Tensor

from edgewise import graphs
from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.app.files.frames import as_source, is_frame

WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


OF_FIELDS = "choose another value; `edgewise show RECIPE` lists the fields and their values"


def read_value(name: str, value: Any, kind: Any, remedy: str = OF_FIELDS) -> Any:
    """Convert a value to the type ``kind``."""
    if get_origin(kind) in (UnionType, Union):
        return _read_optional(name, value, kind, remedy)
    if get_origin(kind) is Literal:
        choices = {str(choice): choice for choice in get_args(kind)}
        check_choice(name, str(value), choices)
        return choices[str(value)]
    if kind == tuple[str, ...] and isinstance(value, (str, list, tuple)):
        texts = value.split(",") if isinstance(value, str) and value else value
        return tuple(read_value(name, text, str, remedy) for text in texts)
    if kind == tuple[int, ...] and isinstance(value, (str, list, tuple)):
        texts = value.split(",") if isinstance(value, str) and value else value
        return tuple(read_value(name, text, int, remedy) for text in texts)
    if isinstance(kind, type) and issubclass(kind, graphs.Pattern):
        return value if isinstance(value, graphs.Pattern) else graphs.parse(str(value))
    if kind is bool and str(value).lower() in WORDS:
        return WORDS[str(value).lower()]
    if kind is str and isinstance(value, str):
        return value
    if kind is str and (isinstance(value, Path) or is_frame(value)):
        return as_source(value)
    if kind in (int, float) and not isinstance(value, bool):
        try:
            number = kind(value)
            if math.isfinite(number) and (isinstance(value, str) or number == value):
                return number
        except (ValueError, TypeError, OverflowError):
            pass
    raise ArgumentError(name, expected=describe(kind), got=repr(value), remedy=remedy)


def _read_optional(name: str, value: Any, kind: Any, remedy: str) -> Any:
    kinds = [k for k in get_args(kind) if k is not type(None)]
    if len(kinds) < len(get_args(kind)) and (value is None or value == "none"):
        return None
    errors = []
    for alternative in kinds:
        try:
            return read_value(name, value, alternative, remedy)
        except ArgumentError as error:
            errors.append(error)
    raise errors[0]


def show_value(value: Any) -> Any:
    """Convert a field value to a JSON value. A graph becomes text that ``graphs.parse`` reads."""
    if isinstance(value, tuple):
        return list(value)
    return repr(value) if isinstance(value, graphs.Pattern) else value


def as_typed(value: Any) -> str:
    """Convert a field value to the text that a user would type: ``none``, ``true``, ``a,b``."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(as_typed, value))
    return str(show_value(value))


def describe(kind: Any) -> str:
    """Return a description of a type, such as "a whole number" or "one of mean, sum"."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) in (UnionType, Union):
        alternatives = [describe(k) if k is not type(None) else "none" for k in get_args(kind)]
        return " or ".join(alternatives)
    if isinstance(kind, type) and issubclass(kind, graphs.Pattern):
        return "a graph"
    if kind == tuple[str, ...]:
        return "texts separated by commas"
    if kind == tuple[int, ...]:
        return "whole numbers separated by commas"
    words = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        Tensor: "a tensor, which only Python code can pass",
    }
    return words.get(kind, str(kind))
