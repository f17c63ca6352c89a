"""A picture of one epoch shows it: a line has two ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("lightning")
pytest.importorskip("matplotlib")

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from edgewise.app.cli.picture import picture
from edgewise.app.kinds import find
from edgewise.app.runs import Comparison
from edgewise.app.runs.comparison import Outcome
from edgewise.app.train.fitting import curves

ROW = {"epoch": 0, "train/accuracy": 0.2, "val/accuracy": 0.7}


def pixels_in(axes: Axes, colour: str) -> int:
    """How many pixels of a panel have a colour, without its legend."""
    legend = axes.get_legend()
    if legend is not None:
        legend.remove()
    canvas = FigureCanvasAgg(axes.figure.figure)
    canvas.draw()
    image = np.asarray(canvas.buffer_rgba())[..., :3] / 255
    box = axes.get_window_extent()
    rows = slice(int(image.shape[0] - box.y1), int(image.shape[0] - box.y0))
    part = image[rows, int(box.x0) : int(box.x1)]
    return int((np.abs(part - to_rgb(colour)).max(-1) < 0.02).sum())


def test_the_curves_of_a_run_of_one_epoch() -> None:
    assert pixels_in(curves([ROW], 0).axes[0], "#9aa7b8") > 4


def compared(rows: list[dict[str, float]]) -> Comparison:
    outcome = Outcome(0.1, [Path()], [{"val/accuracy": 0.7, "seconds": 1.0}], [rows])
    return Comparison(find("digits"), "optimizer.lr", [outcome])


def test_the_curves_of_a_comparison_of_one_epoch() -> None:
    assert pixels_in(picture(compared([ROW])).axes[1], "#8795a8") > 4


def test_marks_are_at_whole_epochs() -> None:
    rows = [ROW | {"epoch": epoch} for epoch in range(3)]
    for axes in (curves(rows, 0).axes[0], picture(compared(rows)).axes[1]):
        marks = axes.get_xticks()
        assert (marks == np.round(marks)).all()
        assert {0, 1, 2} <= set(marks)
