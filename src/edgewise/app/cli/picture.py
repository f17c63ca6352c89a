"""Figure of ``edgewise compare``, and a function that saves the figure of any command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgewise._utils.errors import require
from edgewise.app.cli.output import say
from edgewise.app.cli.table import Measured, measured, shown_metric
from edgewise.app.runs.comparison import Comparison
from edgewise.app.train.folder import RunFolder, refuse_run_file
from edgewise.graphs import Graph
from edgewise.graphs.drawing import draw_matrix, draw_nodes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

COLOURS = ("#8795a8", "#e0803c", "#2a9d7c", "#1f6feb", "#9b5de5", "#d1495b", "#b8860b", "#444f5d")
"""Colours of the compared values, distinguishable with colour blindness."""


def save_figure(path: Path, figure: Figure) -> None:
    """Write a figure to the file that ``--draw`` names, and print the path.

    Raises:
        ArgumentError: the suffix of the file is not that of an image format, or the file belongs
            to a run.
        WriteError: the file cannot be written.
    """
    refuse_run_file("--draw", path)
    folder = RunFolder(path.parent)
    folder.make()
    folder.write_figure(path.name, figure)
    say(path)


def picture(found: Comparison, split: Measured = "val") -> Figure:
    """Return the figure of a comparison: results, and below them the graphs if they are compared.

    Args:
        found: the comparison.
        split: split whose metrics the bars show; learning curves are for the validation set.

    Raises:
        MissingExtraError: Matplotlib is not installed.
    """
    require("matplotlib", extra="plot", purpose="drawing a report")
    from matplotlib.figure import Figure

    graphs = [outcome.graph for outcome in found.outcomes if outcome.graph is not None]
    width = max(9.6, 2.4 * len(graphs))
    figure = Figure(figsize=(width, 8.8 if graphs else 4.2), layout="constrained")
    parts = figure.subfigures(2 if graphs else 1, 1, squeeze=False, height_ratios=_ratios(graphs))
    bars, curves = parts[0, 0].subplots(1, 2, width_ratios=(1, 1.25))
    _draw_results(found, split, bars)
    _draw_curves(found, curves)
    if graphs:
        _draw_graphs(found, parts[1, 0])
    return figure


def _ratios(graphs: list[Graph]) -> tuple[float, ...]:
    return (4.0, 4.8) if graphs else (1.0,)


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _draw_results(found: Comparison, split: Measured, axes: Axes) -> None:
    """Draw a bar for each value of the compared field, and a dot for each seed.

    The length of a bar is the mean of the first metric of the task, such as accuracy, or of the
    loss if the task has no metric.
    """
    name = measured(found, split)[0]
    for place, outcome in enumerate(found.outcomes):
        mean, values = outcome.mean(name), outcome.values(name)
        axes.barh(place, mean, color=_colour(place), height=0.62)
        if len(values) > 1:
            axes.scatter(values, [place] * len(values), s=9, color="white", edgecolors="#16202c")
        axes.annotate(
            shown_metric(outcome, name),
            (max(values), place),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    labels = [outcome.label for outcome in found.outcomes]
    axes.set_yticks(range(len(labels)), labels, family="monospace")
    axes.invert_yaxis()
    axes.margins(x=0.3)  # Leave room for the numbers.
    if name.endswith("accuracy"):
        axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    _plain(axes, name.replace("/", " "))
    axes.grid(axis="y", visible=False)


def _draw_curves(found: Comparison, axes: Axes) -> None:
    """Draw the validation metric by epoch: a line for each value of the field and each seed."""
    name = measured(found, "val")[0]
    for place, outcome in enumerate(found.outcomes):
        for seed, log in enumerate(outcome.logs):
            epochs, values = [row["epoch"] for row in log], [row[name] for row in log]
            label = None if seed else outcome.label
            axes.plot(epochs, values, color=_colour(place), linewidth=1.4, marker=".", label=label)
    axes.set_xlabel("epoch", fontsize=9)
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False, loc="best")
    _plain(axes, name.replace("val/", "validation "))


def _draw_graphs(found: Comparison, part: SubFigure) -> None:
    """Draw each compared graph, and below it its adjacency matrix."""
    drawn = [outcome for outcome in found.outcomes if outcome.graph is not None]
    panels = part.subplots(2, len(drawn), squeeze=False)
    for place, outcome in enumerate(drawn):
        assert outcome.graph is not None
        nodes, matrix = panels[:, place]
        draw_nodes(outcome.graph, nodes)
        draw_matrix(outcome.graph, matrix)
        colour = _colour(found.outcomes.index(outcome))
        nodes.set_title(outcome.label, fontsize=10, family="monospace", color=colour, weight="bold")
        matrix.set_title(f"{outcome.edges_per_token:.2f} edges per token", fontsize=8)
        if place:
            matrix.set_ylabel("")


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left", weight="bold")
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(alpha=0.25, linewidth=0.6)
