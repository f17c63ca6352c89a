"""Reading of drawings as strokes, with the same simplification as in Quick, Draw!.

https://github.com/googlecreativelab/quickdraw-dataset describes the simplification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise._utils.errors import ArgumentError

SIDE = 255  # Length of the longer side of a simplified drawing.
WITHIN = 2.0  # A point may be removed if it is at most this far from the simplified line.

Stroke = tuple[list[int], list[int]]
"""Stroke: the x coordinates of its points, and the y coordinates, which increase downwards."""
Points = NDArray[np.float64]
"""Array ``[n, 2]`` of the coordinates of n points."""


def read_strokes(drawing: Any) -> list[Stroke]:
    """Return the strokes of a drawing, which are simplified first if necessary.

    A drawing counts as simplified if its coordinates are integers from 0 to 255 and it has no
    times.

    Args:
        drawing: list of strokes. A stroke is a list of x coordinates, a list of y coordinates, and
            optionally a list of times.

    Raises:
        ArgumentError: the value does not have this form.
    """
    try:
        strokes = [(np.array(s[0], np.float64), np.array(s[1], np.float64)) for s in drawing]
        timed = any(len(s) > 2 for s in drawing)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise _no_drawing(repr(drawing)[:60]) from error
    if not strokes:
        raise _no_drawing("no stroke")
    for xs, ys in strokes:
        if xs.ndim != 1 or xs.shape != ys.shape or not len(xs):
            raise _no_drawing("a stroke with different numbers of x and y, or without points")
    points = [np.stack(stroke, 1) for stroke in strokes]
    everything = np.concatenate(points)
    with np.errstate(invalid="ignore", over="ignore"):
        if not np.isfinite(np.ptp(everything, 0)).all():
            raise _no_drawing("NaN, infinity, or points too far apart")
    is_integer = (everything == everything.round()).all()
    if timed or not is_integer or everything.min() < 0 or everything.max() > SIDE:
        points = simplified(points)
    return [(s[:, 0].astype(int).tolist(), s[:, 1].astype(int).tolist()) for s in points]


def _no_drawing(got: str) -> ArgumentError:
    return ArgumentError(
        "drawing",
        expected="a list of strokes, each with a list of x and a list of y of equal length",
        got=got,
        remedy="write for example [[[0, 90, 90], [0, 0, 60]], [[20, 40], [30, 30]]]",
    )


def simplified(strokes: Sequence[Points]) -> list[Points]:
    """Return a drawing moved to the origin, with a longer side of 255 and fewer points."""
    everything = np.concatenate(strokes)
    corner = everything.min(0)
    size = float((everything.max(0) - corner).max())
    return [straightened((stroke - corner) / (size or 1.0) * SIDE).round() for stroke in strokes]


def straightened(points: Points) -> Points:
    """Return a line with fewer points, by the Ramer-Douglas-Peucker algorithm.

    A removed point is at most ``WITHIN`` away from the line between the remaining points.

    Papers: Ramer, 1972; Douglas and Peucker, 1973.
    """
    remaining = {0, len(points) - 1}
    asked = [(0, len(points) - 1)]
    while asked:
        first, last = asked.pop()
        if last - first < 2:
            continue
        away = _distances(points[first + 1 : last], points[first], points[last])
        if away.max() > WITHIN:
            farthest = first + 1 + int(away.argmax())
            remaining.add(farthest)
            asked += [(first, farthest), (farthest, last)]
    return points[sorted(remaining)]


def _distances(points: Points, start: Points, end: Points) -> Points:
    """Return the distances of points from the line through ``start`` and ``end``.

    If these two are the same point, return the distances from it.
    """
    along, off = end - start, points - start
    length = float(np.hypot(along[0], along[1]))
    if not length:
        return np.asarray(np.hypot(off[:, 0], off[:, 1]))
    return np.asarray(np.abs(off[:, 0] * along[1] - off[:, 1] * along[0]) / length)
