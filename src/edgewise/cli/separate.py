"""Pairs of graphs by what tells them apart, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.cli.table import table
from edgewise.encodings.separation import Drawn, hard_pairs
from edgewise.errors import require
from edgewise.runs.separation import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, LINE, APART, ALIKE, UNSURE = "#16202c", "#9aa7b5", "#2a9d7c", "#e9edf1", "#f2c14e"
MARKS = {"apart": "✓", "alike": "–", "unsure": "±"}
COLOURS = {"apart": APART, "alike": ALIKE, "unsure": UNSURE}
LEGEND = """\
✓ told apart   – the same to it   ± depends on the order of the nodes more than on the graph
A model that is fresh has weights as they are drawn; one of three draws has to tell a pair apart."""

Found = Mapping[str, Mapping[str, Verdict]]


def separation_table(found: Found) -> str:
    """A row for each encoding and model, a column for each pair, and what the marks mean."""
    pairs = list(found)
    rows = [["", *pairs]]
    for name in found[pairs[0]]:
        rows.append([name, *(MARKS[found[pair][name]] for pair in pairs)])
    return f"{table(rows)}\n\n{LEGEND}"


def draw_separation(found: Found, path: Path) -> None:
    """The graphs of each pair, and below them a mark for each encoding and model."""
    require("matplotlib", extra="plot", purpose="drawing graphs")
    from matplotlib.figure import Figure

    drawn, names = hard_pairs(), list(found[next(iter(found))])
    height = 2.6 + 0.34 * len(names)
    figure = Figure(figsize=(2.6 * len(found) + 2.2, height))
    wide, tall = 2.2 / figure.get_figwidth(), 2.2 / height
    each = (1 - wide) / len(found)
    for column, pair in enumerate(found):
        left = wide + column * each
        for side, one in enumerate(drawn[pair]):
            axes = figure.add_axes((left + side * each / 2, 1 - tall, each / 2 * 0.92, tall * 0.8))
            _draw_graph(one, axes)
        figure.text(left + each / 2 * 0.96, 1 - tall * 0.14, pair, ha="center", fontsize=9)
    axes = figure.add_axes((wide, 0.02, 1 - wide, 1 - tall - 0.04))
    axes.set(xlim=(0, len(found)), ylim=(len(names), 0))
    axes.set_axis_off()
    for row, name in enumerate(names):
        axes.text(-0.04, row + 0.5, name, ha="right", va="center", fontsize=9, color=INK)
        for column, pair in enumerate(found):
            mark: str = found[pair][name]
            axes.barh(row + 0.5, 0.94, 0.86, left=column + 0.01, color=COLOURS[mark])
            axes.text(column + 0.48, row + 0.5, MARKS[mark], ha="center", va="center", fontsize=9)
    figure.savefig(path, dpi=100)


def _draw_graph(one: Drawn, axes: Axes) -> None:
    axes.set_axis_off()
    axes.set_aspect("equal")
    for source, target in one.graph.edge_index.T.tolist():
        if source < target:
            axes.plot(*one.places[[source, target]].T.tolist(), color=LINE, lw=0.8, zorder=1)
    x, y = one.places.T.tolist()
    axes.scatter(x, y, s=14, color=INK, zorder=2)
