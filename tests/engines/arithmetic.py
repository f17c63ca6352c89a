"""Numbers that know their rounding error: float64 beside a bound on what a shorter type may leave.

This is running error analysis (Wilkinson; Higham, *Accuracy and Stability of Numerical Algorithms*,
§3.3). Each operation rounds once in the type that is judged, ``unit`` relative to its result and
``tiny`` where numbers vanish, and carries on the errors of its operands to first order. A sum of n
terms rounds √n + 1 times: its roundings are taken for independent, as in any order they nearly are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Axes = int | tuple[int, ...]


@dataclass(frozen=True)
class Rounding:
    """What one operation may lose: ``unit`` of its result, and ``tiny`` in any case.

    Sums are held in float32 at least, however short the type of their terms.
    """

    unit: float
    tiny: float

    @property
    def sum_unit(self) -> float:
        """What adding one term may lose."""
        return min(self.unit, 2.0**-23)


EXACT = Rounding(0.0, 0.0)
MOST_EXPONENT = 50.0
"""Errors of an exponent beyond this say no more than that nothing is known."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """A value in float64 and how far a computation in the judged type may be from it."""

    value: Array
    error: Array
    rounding: Rounding

    @staticmethod
    def of(value: Any, rounding: Rounding) -> Bounded:
        """What is given, and hence exact."""
        array = np.asarray(value, dtype=np.float64)
        return Bounded(array, np.zeros_like(array), rounding)

    def _made(self, value: Array, error: Array, times: Any = 1.0) -> Bounded:
        """The result of an operation that rounds so many times."""
        rounding = self.rounding
        lost = times * (rounding.unit * np.abs(value) + rounding.tiny)
        return Bounded(value, error + lost, rounding)

    def within(self, rounding: Rounding) -> Bounded:
        """The same, as a computation in another type goes on with it."""
        return Bounded(self.value, self.error, rounding)

    def rounded(self, rounding: Rounding) -> Bounded:
        """The same, stored in another type."""
        lost = rounding.unit * (np.abs(self.value) + self.error) + rounding.tiny
        return Bounded(self.value, self.error + lost, self.rounding)

    def __add__(self, other: Bounded) -> Bounded:
        return self._made(self.value + other.value, self.error + other.error)

    def beside(self, other: Bounded) -> Bounded:
        """The sum, each term of which may be rounded in a product of its own: ax + ay."""
        lost = self.rounding.unit * (np.abs(self.value) + np.abs(other.value))
        return self._made(self.value + other.value, self.error + other.error + lost)

    def __sub__(self, other: Bounded) -> Bounded:
        return self._made(self.value - other.value, self.error + other.error)

    def __mul__(self, other: Bounded) -> Bounded:
        a, b = self, other
        error = (np.abs(a.value) + a.error) * b.error + np.abs(b.value) * a.error
        return self._made(a.value * b.value, error)

    def over(self, other: Array) -> Bounded:
        """Divided by something exact."""
        return self._made(self.value / other, self.error / np.abs(other))

    def ratio(self, other: Bounded) -> Bounded:
        """Divided by something positive that may be inexact."""
        value = self.value / other.value
        error = (self.error + np.abs(value) * other.error) / other.value
        return self._made(value, error)

    def at(self, axis: int, index: NDArray[np.int64]) -> Bounded:
        """These entries along an axis."""
        value, error = (np.take(x, index, axis=axis) for x in (self.value, self.error))
        return Bounded(value, error, self.rounding)

    def __getitem__(self, key: Any) -> Bounded:
        return Bounded(self.value[key], self.error[key], self.rounding)

    def sum(self, axis: Axes, *, keepdims: bool = False) -> Bounded:
        count = np.prod([self.value.shape[a] for a in np.atleast_1d(axis)])
        value = self.value.sum(axis, keepdims=keepdims)
        error = self.error.sum(axis, keepdims=keepdims)
        terms = np.abs(self.value).sum(axis, keepdims=keepdims)
        return Bounded(value, error + self._lost(terms, count), self.rounding)

    def summed_by(self, row: NDArray[np.int64], rows: int) -> Bounded:
        """Sums along the axis -3 of the terms of each row, ``[..., terms, H, D]``."""
        both = np.stack([self.value, self.error, np.abs(self.value)])
        value, error, terms = sum_by(row, rows, both)
        count = np.bincount(row, minlength=rows)[:, None, None]
        lost = self._lost(terms, count, self._alike(row))
        return Bounded(value, error + lost, self.rounding)

    def _alike(self, row: NDArray[np.int64]) -> int:
        """How many terms of a row are the same number, at most, by the first numbers of all."""
        if not self.value.size:
            return 1
        first = np.moveaxis(self.value, -3, 0).reshape(len(row), -1)[:, 0]
        order = np.lexsort((first, row))
        row, first = row[order], first[order]
        new = np.flatnonzero((row[1:] != row[:-1]) | (first[1:] != first[:-1])) + 1
        return int(np.diff(new, prepend=0, append=len(row)).max())

    def _lost(self, terms: Array, count: Any, alike: int = 1) -> Array:
        """By summing so many terms of this total size, so many of which are the same number.

        Roundings of different numbers add up as a random walk does, those of equal ones in a line.
        """
        times = np.sqrt(count * np.minimum(alike, count)) + 1
        lost: Array = times * (self.rounding.sum_unit * terms + count * self.rounding.tiny)
        return lost

    def of_groups(self, heads: int) -> Bounded:
        """``[..., N, heads, D]`` of ``[..., N, H, D]``: the sum of neighbouring heads."""
        if self.value.shape[-2] == heads:
            return self
        *lead, all_heads, width = self.value.shape
        shape = (*lead, heads, all_heads // heads, width)
        parts = Bounded(self.value.reshape(shape), self.error.reshape(shape), self.rounding)
        return parts.sum(-2)

    def exp(self) -> Bounded:
        """Where nothing is known of the exponent, any number from 0 to 1: it is none above 0."""
        value = np.exp(self.value)
        error = value * np.expm1(np.minimum(self.error, MOST_EXPONENT))
        most = np.exp(np.minimum(self.value + self.error, 0.0))
        error = np.where(self.error > MOST_EXPONENT, np.maximum(error, most), error)
        return self._made(value, error)

    def log(self) -> Bounded:
        """Of something positive."""
        error = -np.log1p(-np.minimum(self.error / self.value, 1 - 1e-9))
        return self._made(np.log(self.value), error)

    def through(
        self, function: Callable[[Array], Array], steepest: float, rounds: Any = 1.0
    ) -> Bounded:
        """A function whose slope is at most ``steepest``, and which loses ``rounds`` units."""
        unit, tiny = self.rounding.unit, self.rounding.tiny
        error = steepest * self.error + rounds * unit + tiny
        return self._made(function(self.value), error)

    def only(self, keep: NDArray[np.bool_]) -> Bounded:
        """Zero, exactly, where ``keep`` is not set."""
        return Bounded(np.where(keep, self.value, 0), np.where(keep, self.error, 0), self.rounding)

    def to_shape(self, shape: Sequence[int]) -> Bounded:
        """The sum over what was broadcast from this shape."""
        extra = self.value.ndim - len(shape)
        axes = tuple(range(extra)) + tuple(
            extra + i
            for i, size in enumerate(shape)
            if size == 1 and self.value.shape[extra + i] != 1
        )
        if not axes:
            return self
        whole = self.sum(axes, keepdims=True)
        value, error = (x.reshape(shape) for x in (whole.value, whole.error))
        return Bounded(value, error, self.rounding)


def sum_by(row: NDArray[np.int64], rows: int, x: Array) -> Array:
    """``[..., rows, H, D]`` of ``[..., terms, H, D]``: the sum of each row's terms."""
    order = np.argsort(row, kind="stable")
    first = np.flatnonzero(np.diff(row[order], prepend=-1))
    found = row[order[first]]
    total = np.zeros((*x.shape[:-3], rows, *x.shape[-2:]))
    if len(found):
        total[..., found, :, :] = np.add.reduceat(x[..., order, :, :], first, axis=-3)
    return total
