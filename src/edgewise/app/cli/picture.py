"""Figure of ``edgewise compare``."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from edgewise.app.cli.output import Measured, measured, shown_metric
from edgewise.app.runs.comparison import Comparison
from edgewise.graphs.drawing import draw_matrix, draw_nodes

COLOURS = ("#8795a8", "#e0803c", "#2a9d7c", "#1f6feb", "#9b5de5", "#d1495b", "#b8860b", "#444f5d")
"""Colours of the compared values, distinguishable with colour blindness."""


def picture(comparison: Comparison, split: Measured = "val") -> Figure:
    """Return the figure of a comparison: results, and below them the compared graphs."""
    count = sum(outcome.graph is not None for outcome in comparison.outcomes)
    figure = Figure(figsize=(max(9.6, 2.4 * count), 8.8 if count else 4.2), layout="constrained")
    ratios = (4.0, 4.8) if count else (1.0,)
    subfigures = figure.subfigures(len(ratios), 1, squeeze=False, height_ratios=ratios)
    bars, curves = subfigures[0, 0].subplots(1, 2, width_ratios=(1, 1.25))
    _draw_results(comparison, split, bars)
    _draw_curves(comparison, curves)
    if count:
        _draw_graphs(comparison, subfigures[1, 0])
    return figure


def _colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _draw_results(comparison: Comparison, split: Measured, axes: Axes) -> None:
    """Draw a bar for the mean metric of each value of the field, and a dot for each seed."""
    name = measured(comparison, split)[0]
    for row, outcome in enumerate(comparison.outcomes):
        mean, values = outcome.mean(name), outcome.values(name)
        axes.barh(row, mean, color=_colour(row), height=0.62)
        if len(values) > 1:
            axes.scatter(values, [row] * len(values), s=9, color="white", edgecolors="#16202c")
        axes.annotate(
            shown_metric(outcome, name),
            (max(values), row),
            (7, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    labels = [outcome.label for outcome in comparison.outcomes]
    axes.set_yticks(range(len(labels)), labels, family="monospace")
    axes.invert_yaxis()
    axes.margins(x=0.3)  # Leave room for the numbers.
    if name.endswith("accuracy"):
        axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    _plain(axes, name.replace("/", " "))
    axes.grid(axis="y", visible=False)


def _draw_curves(comparison: Comparison, axes: Axes) -> None:
    """Draw the validation metric by epoch: a line for each value of the field and each seed."""
    name = measured(comparison, "val")[0]
    for index, outcome in enumerate(comparison.outcomes):
        for seed, log in enumerate(outcome.logs):
            epochs, values = [row["epoch"] for row in log], [row[name] for row in log]
            label = None if seed else outcome.label
            axes.plot(epochs, values, color=_colour(index), linewidth=1.4, marker=".", label=label)
    axes.set_xlabel("epoch", fontsize=9)
    axes.locator_params(axis="x", integer=True)
    axes.legend(fontsize=8, frameon=False, loc="best")
    _plain(axes, name.replace("val/", "validation "))


def _draw_graphs(comparison: Comparison, figure: SubFigure) -> None:
    """Draw each compared graph, and below it its adjacency matrix."""
    drawn = [outcome for outcome in comparison.outcomes if outcome.graph is not None]
    panels = figure.subplots(2, len(drawn), squeeze=False)
    for column, outcome in enumerate(drawn):
        assert outcome.graph is not None
        nodes, matrix = panels[:, column]
        draw_nodes(outcome.graph, nodes)
        draw_matrix(outcome.graph, matrix)
        colour = _colour(comparison.outcomes.index(outcome))
        nodes.set_title(outcome.label, fontsize=10, family="monospace", color=colour, weight="bold")
        matrix.set_title(f"{outcome.edges_per_token:.2f} edges per token", fontsize=8)
        if column:
            matrix.set_ylabel("")


def _plain(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left", weight="bold")
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(alpha=0.25, linewidth=0.6)
