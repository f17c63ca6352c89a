"""Parser of pattern expressions such as ``"window(4) | hubs([0])"``."""

from __future__ import annotations

import ast
import operator
import re
from typing import Any

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError, EdgewiseError
from edgewise.graphs.graph import Pattern
from edgewise.graphs.user_patterns import USER_PATTERN, find

OPERATORS = {ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.Sub: operator.sub}
METHODS = ("power", "transpose", "with_self_loops", "without_self_loops")
MAX_LENGTH = 1_000_000
"""Maximum number of characters of an expression."""
MAX_DEPTH = 100
"""Maximum number of nested operators and calls; functions on patterns are recursive."""
MAX_NUMBER = 2**53
"""Maximum absolute value of a number, so that sums with node indices fit into 64 bits."""
SHOWN = 200
"""Maximum number of characters of an expression that an error shows."""


def parse_expression(text: str, patterns: dict[str, Any]) -> Pattern:
    """Return the pattern that a ``repr(pattern)`` describes; nothing else is evaluated."""
    if len(text) > MAX_LENGTH:
        raise _unreadable(text, f"more than {MAX_LENGTH} characters")
    user_patterns: dict[str, Any] = {}

    def replace(match: re.Match[str]) -> str:
        user_patterns[name := f"user_{len(user_patterns)}"] = find(*match.groups())
        return name

    try:
        tree = ast.parse(USER_PATTERN.sub(replace, text), mode="eval")
        pattern = _read(tree.body, patterns, user_patterns)
    except EdgewiseError:
        raise
    except Exception as error:  # Constructors raise many types of errors for wrong arguments.
        raise _unreadable(text, str(error) or type(error).__name__) from error
    if not isinstance(pattern, Pattern):
        raise _unreadable(text, "not a pattern")
    return pattern


def _read(
    node: ast.expr, patterns: dict[str, Any], user_patterns: dict[str, Any], depth: int = 0
) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} nested operators and calls")

    def read(inner: ast.expr) -> Any:
        return _read(inner, patterns, user_patterns, depth + 1)

    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](read(node.left), read(node.right))
    if isinstance(node, ast.Call):
        args = [read(argument) for argument in node.args]
        kwargs = {k.arg: read(k.value) for k in node.keywords if k.arg is not None}
        if isinstance(node.func, ast.Name):
            if node.func.id in user_patterns:
                return user_patterns[node.func.id](*args, **kwargs)
            check_choice("graph", node.func.id, patterns)
            return patterns[node.func.id](*args, **kwargs)
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            return getattr(read(node.func.value), node.func.attr)(*args, **kwargs)
    if isinstance(node, ast.Name) and node.id in user_patterns:
        return user_patterns[node.id]
    for number in ast.walk(node):
        value = number.value if isinstance(number, ast.Constant) else 0
        if isinstance(value, (int, float)) and abs(value) > MAX_NUMBER:
            raise ValueError(f"a number above {MAX_NUMBER}")
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise _unreadable(ast.unparse(node), "not a pattern") from error


def _unreadable(text: str, why: str) -> ArgumentError:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return ArgumentError(
        "graph",
        expected='a pattern such as "window(4) | hubs([0])"',
        got=f"{shown!r} ({why})",
        remedy="choose among the patterns that `edgewise list graphs` prints",
    )
