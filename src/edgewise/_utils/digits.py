"""Digits of numbers: four significant digits on the screen, six in files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

SHOWN, SAVED = 4, 6
LARGEST_PLAIN = 1e15


def rounded(value: float, sign: str = "") -> str:
    """Format a number with four significant digits; digits before the decimal point are kept.

    Example:
        >>> from edgewise._utils.digits import rounded
        >>> [rounded(value) for value in (0.98, 12.3456, 311026.48, 2.2e-9)]
        ['0.9800', '12.35', '311026', '2.200e-09']
    """
    value += 0.0  # -0.0 becomes 0.0.
    size = abs(value)
    if not math.isfinite(value) or value == 0:
        return f"{value:{sign}.{SHOWN}f}"
    exponent = int(f"{size:.{SHOWN - 1}e}".partition("e")[2])  # The exponent after rounding.
    if not exponent >= -SHOWN or size >= LARGEST_PLAIN:
        return f"{value:{sign}.{SHOWN - 1}e}"
    return f"{value:{sign}.{max(0, SHOWN - 1 - exponent)}f}"


def saved(value: float) -> float:
    """Round a number to six significant digits; numbers from 1 on to six decimals.

    Targets of a high level, such as energies, differ in their decimals only.
    """
    return float(f"{value:.{SAVED}g}") if abs(value) < 1 else round(value, SAVED)


def map_leaves(value: Any, function: Callable[[Any], Any]) -> Any:
    """Return nested lists and dicts with a function applied to each item."""
    if isinstance(value, Mapping):
        return {name: map_leaves(item, function) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_leaves(item, function) for item in value]
    return function(value)
