"""``edgewise heads``, ``prune`` and ``suggest``: attention heads of a run."""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any

from edgewise.arguments import check_least
from edgewise.cli.table import table
from edgewise.errors import ArgumentError
from edgewise.inference import load
from edgewise.training import RunFolder

STATISTICS = {
    "relative_entropy": (
        "entropy",
        "entropy of the weights, as a fraction of that of equal weights",
    ),
    "distance": ("distance", "distance between source and target"),
    "own": ("own", "weight of the target itself"),
    "first": ("first", "weight of the first node of the text"),
    "hubs": ("hubs", "weight of nodes that receive more than 4 times the mean"),
}
"""Columns of the table and their meaning, by attribute of :class:`edgewise.explain.HeadStatistics`.
"""
OF_ORDER = ("distance", "first")
"""Statistics that mean nothing for nodes without an order."""


def heads(arguments: Namespace) -> int:
    """Print importance and statistics of each head, and the three observations."""
    from edgewise import explain
    from edgewise.explain.explanation import has_order

    check_least("--batches", arguments.batches, 1, "choose how many batches to use")
    run = load(arguments.folder)
    scores = explain.importance(
        run, by=arguments.by, split=arguments.split, max_batches=arguments.batches
    )
    recorded = explain.recorded_batch(run, split=arguments.split)
    ordered = has_order(run)
    kept = [name for name in STATISTICS if ordered or name not in OF_ORDER]
    cells = [["layer", "head", "importance", *(STATISTICS[name][0] for name in kept)]]
    for layer, found in zip(recorded, explain.statistics(recorded), strict=True):
        own = scores.get(layer.module)
        for place, head in enumerate(found.heads):
            values = [float(getattr(found, name)[place]) for name in kept]
            values = [math.nan if own is None else float(own[place]), *values]
            cells.append([layer.name, str(head), *map(_shown, values)])
    print(table(cells, left=1))
    print(
        f"\nimportance: by {arguments.by.replace('_', ' ')}, over at most {arguments.batches} "
        f"batches of {arguments.split}. The other columns are means over one batch:"
    )
    for name in kept:
        print(": ".join(STATISTICS[name]))
    if ordered:
        print(f"\n{explain.observations(recorded)}")
    if arguments.draw is not None:
        figure = explain.draw_statistics(recorded, scores)
        RunFolder(arguments.draw.parent).write_figure(arguments.draw.name, figure)
        print(arguments.draw)
    return 0


def prune(arguments: Namespace) -> int:
    """Remove heads from a run, write it to a new folder, and print the loss before and after."""
    from edgewise import explain
    from edgewise.explain.losses import losses_of

    check_least("--batches", arguments.batches, 1, "choose how many batches to use")
    if (arguments.fraction is None) == (not arguments.heads):
        raise ArgumentError(
            "--fraction",
            expected="either a fraction of the heads with --fraction, or heads with --heads",
            got="both" if arguments.heads else "none of them",
            remedy="give --fraction 0.2, or --heads LAYER:HEAD,HEAD for each layer",
        )
    RunFolder(arguments.out).refuse_existing()
    RunFolder(arguments.folder).refuse_several()
    run = load(arguments.folder)
    layers = explain.layers_with_heads(run)
    chosen: dict[str | int, list[int]]
    if arguments.heads:
        chosen = {}
        for layer, heads in map(_layer_and_heads, arguments.heads):
            chosen.setdefault(layer, []).extend(heads)
    elif layers:
        most = 1 - len(layers) / sum(map(len, layers.values()))
        if most < arguments.fraction < 1:
            raise ArgumentError(
                "--fraction",
                expected=f"a fraction of at most {most:.2f}, which leaves one head in each of "
                f"{len(layers)} layers",
                got=f"{arguments.fraction:g}",
                remedy="choose a smaller fraction",
            )
        scores = explain.importance(
            run, by=arguments.by, split=arguments.split, max_batches=arguments.batches
        )
        least = explain.least_important(
            scores, arguments.fraction, layers, normalise=arguments.by == "gradient"
        )
        chosen = dict(least.items())
    else:
        chosen = {0: [0]}  # prune names the model, which has no such layer
    before = _size(run)
    losses = losses_of(run, split=arguments.split)
    full = losses.mean()
    explain.prune(run, chosen)
    path = explain.save_pruned(run, arguments.out)
    left = explain.layers_with_heads(run)
    cells = [
        [name, _listed(set(heads) - set(left[name])), _listed(left[name])]
        for name, heads in layers.items()
    ]
    print(table([["layer", "removed", "left"], *cells], left=3))
    print(f"\nweights: {before:,} before, {_size(run):,} after")
    print(f"{arguments.split} loss: {full:.4f} before, {losses.mean():.4f} after")
    print(
        f"{path}: `edgewise test {path}` measures it; log.csv and metrics.json there are those of "
        "the run before pruning"
    )
    return 0


def suggest(arguments: Namespace) -> int:
    """Print a sparse pattern for each layer, with its loss and time beside full attention."""
    from edgewise import explain

    check_least("--batches", arguments.batches, 1, "choose how many batches to use")
    run = load(arguments.folder)
    found = explain.suggest(
        run, coverage=arguments.coverage, split=arguments.split, max_batches=arguments.batches
    )
    print(found)
    if "graph" in run.recipe.model.keywords:
        widest = max(found.layers.values(), key=lambda one: one.edges)
        print(f'\nto train with it: edgewise train {run.recipe.name} --model.graph "{widest.text}"')
    return 0


def _layer_and_heads(text: str) -> tuple[str | int, list[int]]:
    """Read ``LAYER:HEAD,HEAD``, in which the layer is a name or an index."""
    layer, _, numbers = text.rpartition(":")
    try:
        chosen = [int(number) for number in numbers.split(",")]
    except ValueError:
        chosen = []
    if not layer or not chosen:
        raise ArgumentError(
            "--heads",
            expected="a layer, a colon, and numbers of heads with commas",
            got=text,
            remedy="write for example --heads 0:1,3 for two heads of the first layer",
        )
    return (int(layer) if layer.isdecimal() else layer), chosen


def _size(run: Any) -> int:
    return sum(parameter.numel() for parameter in run.model.parameters())


def _listed(numbers: Any) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"
