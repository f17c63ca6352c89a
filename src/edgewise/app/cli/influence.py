"""Command ``edgewise influence``: print the most influential nodes of a run's graph."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import Any

from edgewise._utils.arguments import check_range
from edgewise.app.cli.output import say, table
from edgewise.app.cli.progress import with_progress
from edgewise.app.cli.saving import save_figure
from edgewise.app.explain.influence import MODEL
from edgewise.app.explain.influence import influence as measure_influence
from edgewise.app.runs.run import load
from edgewise.app.train.folder import figure_format


def influence(arguments: Namespace) -> int:
    """Run ``edgewise influence``: compare the influence of nodes with their centrality."""
    check_range("--top", arguments.top, "choose for example --top 10", least=1)
    if arguments.draw is not None:
        figure_format(arguments.draw)
    run, track = load(arguments.folder), partial(with_progress, done=arguments.by)
    measured = measure_influence(run, by=arguments.by, seed=arguments.seed, track=track)
    say("nodes with the largest influence on the model, and their ranks by each measure")
    say(f"(influence: {measured.change}):")
    _print(measured.ranking(top=arguments.top))
    say("\nrank correlation with the influence on the model:")
    pairs = measured.correlations()
    rows = [[name, f"{value:.2f}"] for (first, name), value in pairs.items() if first == MODEL]
    say(table([["measure", "Spearman"], *rows], left=1))
    apart = measured.disagreements(top=arguments.top // 2 or 1)
    middle = len(apart) // 2
    say("\nnodes that the model ranks much higher than PageRank:")
    _print(apart[:middle])
    say("\nnodes that the model ranks much lower than PageRank:")
    _print(apart[middle:])
    for name, note in measured.notes.items():
        say(f"{name}: {note}")
    if arguments.draw is not None:
        save_figure(arguments.draw, measured.draw())
    return 0


def _print(rows: list[dict[str, Any]]) -> None:
    cells = [
        [f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()]
        for row in rows
    ]
    say(table([list(rows[0]), *cells], left=1))
