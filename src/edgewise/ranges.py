"""Refusals of numbers out of their range; NaN is in none."""

from __future__ import annotations

from collections.abc import Mapping

from edgewise.errors import ArgumentError


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


def _check(good: bool, argument: str, expected: str, value: float, remedy: str) -> None:
    if not good:
        raise ArgumentError(argument, expected=expected, got=repr(value), remedy=remedy)
