"""Parser of pattern expressions such as ``"window(4) | hubs([0])"``."""

from __future__ import annotations

import ast
import operator
import re
from typing import Any

from edgewise.arguments import check_choice
from edgewise.errors import ArgumentError
from edgewise.graphs.graph import Pattern
from edgewise.graphs.user_patterns import OWN, find

OPERATORS = {ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.Sub: operator.sub}
METHODS = ("power", "transpose", "with_self_loops", "without_self_loops")


def parse_expression(text: str, patterns: dict[str, Any]) -> Pattern:
    """Return the pattern that a string such as ``"window(4) | hubs([0])"`` describes.

    The string is what ``repr(pattern)`` returns: calls of the classes in ``patterns``, of methods
    such as ``transpose()``, or of a user-defined pattern such as ``mymodule:Strided(2)`` (see
    ``user_patterns.py``), joined by ``|``, ``&`` and ``-``. Nothing else is evaluated.

    Raises:
        ArgumentError: the text does not have this form, or the name of a pattern is unknown.
    """
    own: dict[str, Any] = {}

    def named(found: re.Match[str]) -> str:
        own[name := f"own_{len(own)}"] = find(*found.groups())
        return name

    try:
        pattern = _read(ast.parse(OWN.sub(named, text), mode="eval").body, patterns, own)
    except (SyntaxError, TypeError) as error:
        raise _unreadable(text, str(error)) from error
    if not isinstance(pattern, Pattern):
        raise _unreadable(text, "not a pattern")
    return pattern


def _read(node: ast.expr, patterns: dict[str, Any], own: dict[str, Any]) -> Any:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = _read(node.left, patterns, own), _read(node.right, patterns, own)
        return OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.Call):
        arguments = [_read(argument, patterns, own) for argument in node.args]
        named = {k.arg: _read(k.value, patterns, own) for k in node.keywords if k.arg is not None}
        if isinstance(node.func, ast.Name):
            if node.func.id in own:
                return own[node.func.id](*arguments, **named)
            check_choice("graph", node.func.id, patterns)
            return patterns[node.func.id](*arguments, **named)
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            return getattr(_read(node.func.value, patterns, own), node.func.attr)(
                *arguments, **named
            )
    if isinstance(node, ast.Name) and node.id in own:
        return own[node.id]
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise _unreadable(ast.unparse(node), "not a pattern") from error


def _unreadable(text: str, why: str) -> ArgumentError:
    return ArgumentError(
        "graph",
        expected='a pattern such as "window(4) | hubs([0])"',
        got=f"{text!r} ({why})",
        remedy="choose among the patterns that `edgewise list graphs` prints",
    )
