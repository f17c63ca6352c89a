"""Strokes of drawings, and their simplification as in Quick, Draw!.

Source: https://github.com/googlecreativelab/quickdraw-dataset, which describes the simplification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.errors import ArgumentError

SIDE = 255  # longer side of a simplified drawing
WITHIN = 2.0  # maximum distance of a removed point from the line

Stroke = tuple[list[int], list[int]]
"""Coordinates x and y of the points; y points down."""
Points = NDArray[np.float64]
"""Array ``[n, 2]``."""


def read_strokes(drawing: Any) -> list[Stroke]:
    """Return the strokes of a drawing, simplified unless they are already.

    A drawing is simplified if it has integers from 0 to 255 and no times.

    Args:
        drawing: strokes, each a list of x, a list of y, and optionally a list of times.

    Raises:
        ArgumentError: the value is not a drawing.
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
    whole = (everything == everything.round()).all()
    if timed or not whole or everything.min() < 0 or everything.max() > SIDE:
        points = simplified(points)
    return [(s[:, 0].astype(int).tolist(), s[:, 1].astype(int).tolist()) for s in points]


def _no_drawing(got: str) -> ArgumentError:
    return ArgumentError(
        "drawing",
        expected="strokes, each a list of x and a list of y of equal length",
        got=got,
        remedy="give for example [[[0, 90, 90], [0, 0, 60]], [[20, 40], [30, 30]]]",
    )


def simplified(strokes: Sequence[Points]) -> list[Points]:
    """Move a drawing to the origin, scale its longer side to 255, and remove points."""
    everything = np.concatenate(strokes)
    corner = everything.min(0)
    size = float((everything.max(0) - corner).max())
    return [straightened((stroke - corner) / (size or 1.0) * SIDE).round() for stroke in strokes]


def straightened(points: Points) -> Points:
    """Remove points closer than ``WITHIN`` to the line between kept points.

    Papers: Ramer, 1972; Douglas and Peucker, 1973.
    """
    kept = {0, len(points) - 1}
    asked = [(0, len(points) - 1)]
    while asked:
        first, last = asked.pop()
        if last - first < 2:
            continue
        away = _distances(points[first + 1 : last], points[first], points[last])
        if away.max() > WITHIN:
            farthest = first + 1 + int(away.argmax())
            kept.add(farthest)
            asked += [(first, farthest), (farthest, last)]
    return points[sorted(kept)]


def _distances(points: Points, start: Points, end: Points) -> Points:
    """Return the distances of points from the line through two points, or from a single point."""
    along, off = end - start, points - start
    length = float(np.hypot(along[0], along[1]))
    if not length:
        return np.asarray(np.hypot(off[:, 0], off[:, 1]))
    return np.asarray(np.abs(off[:, 0] * along[1] - off[:, 1] * along[0]) / length)
