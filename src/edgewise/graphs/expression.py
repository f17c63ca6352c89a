"""Patterns from text, for recipes and the command line: ``"window(4) | hubs([0])"``."""

from __future__ import annotations

import ast
import operator
from typing import Any

from edgewise.arguments import check_choice
from edgewise.errors import ArgumentError
from edgewise.graphs.graph import Pattern

OPERATORS = {ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.Sub: operator.sub}
METHODS = ("power", "transpose", "with_self_loops", "without_self_loops")


def parse_expression(text: str, patterns: dict[str, Any]) -> Pattern:
    """Read what ``repr(pattern)`` writes: calls of ``patterns``, joined by ``|``, ``&`` and ``-``.

    Nothing else of Python is evaluated.

    Raises:
        ArgumentError: not of this form, or a pattern by an unknown name.

    """
    try:
        pattern = _read(ast.parse(text, mode="eval").body, patterns)
    except (SyntaxError, TypeError) as error:
        raise _unreadable(text, str(error)) from error
    if not isinstance(pattern, Pattern):
        raise _unreadable(text, "not a pattern")
    return pattern


def _read(node: ast.expr, patterns: dict[str, Any]) -> Any:
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_read(node.left, patterns), _read(node.right, patterns))
    if isinstance(node, ast.Call):
        arguments = [_read(argument, patterns) for argument in node.args]
        named = {k.arg: _read(k.value, patterns) for k in node.keywords if k.arg is not None}
        if isinstance(node.func, ast.Name):
            check_choice("graph", node.func.id, patterns)
            return patterns[node.func.id](*arguments, **named)
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            return getattr(_read(node.func.value, patterns), node.func.attr)(*arguments, **named)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise _unreadable(ast.unparse(node), "not a pattern") from error


def _unreadable(text: str, why: str) -> ArgumentError:
    return ArgumentError(
        "graph",
        expected='a pattern such as "window(4) | hubs([0])"',
        got=f"{text!r} ({why})",
        remedy="`edgewise list graphs` shows the patterns",
    )
