"""The numbers that patterns are made from are whole, and not too small."""

from __future__ import annotations

from numbers import Integral

from edgewise.errors import ArgumentError


def check_count(name: str, number: object, least: int, remedy: str) -> None:
    """Refuse all but integers from ``least`` on."""
    if not isinstance(number, Integral) or int(number) < least:
        raise ArgumentError(
            name, expected=f"an integer of at least {least}", got=repr(number), remedy=remedy
        )
