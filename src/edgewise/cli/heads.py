"""Commands ``edgewise heads``, ``prune`` and ``suggest``, on the attention heads of a run."""

from __future__ import annotations

import math
import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from edgewise.arguments import check_least
from edgewise.cli.output import say
from edgewise.cli.picture import save_figure
from edgewise.cli.table import table
from edgewise.data.tables.frames import FRAME
from edgewise.errors import ArgumentError
from edgewise.inference import load
from edgewise.recipes import RECIPES, Recipe
from edgewise.runs import with_values
from edgewise.runs.parsing import as_typed
from edgewise.runs.recipe_fields import changed_fields
from edgewise.training import RunFolder

STATISTICS = {
    "relative_entropy": (
        "entropy",
        "entropy of the weights, divided by the entropy of equal weights",
    ),
    "distance": ("distance", "distance between source and target"),
    "own": ("own", "weight of the target itself"),
    "first": ("first", "weight of the first node of the text"),
    "hubs": ("hubs", "weight of nodes that receive more than 4 times the mean weight"),
}
"""Columns of the printed table: attribute of :class:`edgewise.explain.HeadStatistics`, with the
title and the meaning of its column."""


def heads(arguments: Namespace) -> int:
    """Run ``edgewise heads``: print importance and statistics of each head.

    For models of sequences and images, also print the numbers of
    :func:`edgewise.explain.observations`.
    """
    from edgewise import explain
    from edgewise.explain.explanation import has_order
    from edgewise.explain.figures import OF_ORDER
    from edgewise.explain.losses import losses_of

    check_least("--batches", arguments.batches, 1, "choose for example --batches 10")
    run = load(arguments.folder)
    losses = losses_of(run, split=arguments.split, max_batches=arguments.batches)
    scores = explain.importance(run, losses.batches, losses.loss, by=arguments.by)
    middle = losses.batches[len(losses.batches) // 2 :]
    recorded = explain.recorded_batch(run, middle, losses.loss)
    ordered = has_order(run)
    kept = [name for name in STATISTICS if ordered or name not in OF_ORDER]
    cells = [["layer", "head", "importance", *(STATISTICS[name][0] for name in kept)]]
    for layer, found in zip(recorded, explain.statistics(recorded), strict=True):
        name = f"{recorded.number(layer)}: {layer.name}"
        own = scores.get(layer.module)
        for place, head in enumerate(found.heads):
            values = [float(getattr(found, statistic)[place]) for statistic in kept]
            values = [math.nan if own is None else float(own[place]), *values]
            cells.append([name, str(head), *map(_shown, values)])
    say(table(cells, left=1))
    layers = explain.layers_with_heads(run)
    removable = {recorded.number(layer): layer for layer in recorded if layer.module in layers}
    if removable:
        first, layer = next(iter(removable.items()))
        say(
            "\nedgewise prune --heads LAYER:HEAD removes a head, for example "
            f"{first}:{layer.heads[0]}."
        )
        fixed = dict.fromkeys(map(recorded.number, recorded)) - removable.keys()
        if fixed:
            say(f"The heads of layers {_listed(fixed)} cannot be removed.")
    say(
        f"\nimportance: by {arguments.by.replace('_', ' ')}, over at most {arguments.batches} "
        f"batches of {arguments.split}. The other columns are means over one batch:"
    )
    for name in kept:
        say(": ".join(STATISTICS[name]))
    if ordered:
        say(f"\nthree observations, in the same batch:\n{explain.observations(recorded)}")
    if arguments.draw is not None:
        save_figure(arguments.draw, explain.draw_statistics(recorded, scores, ordered=ordered))
    return 0


def prune(arguments: Namespace) -> int:
    """Run ``edgewise prune``: remove heads, write a new run folder, and print both losses."""
    from edgewise import explain
    from edgewise.explain.losses import losses_of

    check_least("--batches", arguments.batches, 1, "choose for example --batches 10")
    if (arguments.fraction is None) == (not arguments.heads):
        raise ArgumentError(
            "--fraction",
            expected="either a fraction of the heads with --fraction, or heads with --heads",
            got="both" if arguments.heads else "neither",
            remedy="give --fraction 0.2, or --heads LAYER:HEAD,HEAD for each layer",
        )
    RunFolder(arguments.out).refuse_existing(resumable=False)
    RunFolder(arguments.folder).refuse_several()
    run = load(arguments.folder)
    layers = explain.layers_with_heads(run)
    names = explain.recorded_batch(run, split=arguments.split).modules if layers else []
    chosen: dict[str, list[int]] = {}
    if arguments.heads and layers:
        for layer, heads in map(_layer_and_heads, arguments.heads):
            chosen.setdefault(_name_of(layer, names), []).extend(heads)
    elif layers:
        most = 1 - len(layers) / sum(map(len, layers.values()))
        if most < arguments.fraction < 1:
            raise ArgumentError(
                "--fraction",
                expected=f"a fraction of at most {most:.2f}, which leaves one head in each layer",
                got=f"{arguments.fraction:g}",
                remedy="choose a smaller fraction",
            )
        scores = explain.importance(
            run, by=arguments.by, split=arguments.split, max_batches=arguments.batches
        )
        least = explain.least_important(
            scores, arguments.fraction, layers, normalise=arguments.by == "gradient"
        )
        chosen = least
    before = _size(run)
    losses = losses_of(run, split=arguments.split)
    full = losses.mean()
    explain.prune(run, chosen)
    path = explain.save_pruned(run, arguments.out)
    left = explain.layers_with_heads(run)
    cells = [
        [f"{number}: {name}", _listed(set(layers[name]) - set(left[name])), _listed(left[name])]
        for number, name in enumerate(names)
        if name in layers
    ]
    say(table([["layer", "removed", "left"], *cells], left=3))
    say(f"\nweights: {before:,} before, {_size(run):,} after")
    say(f"{arguments.split} loss: {full:.4f} before, {losses.mean():.4f} after")
    say(
        f"{path}: `edgewise test {path}` computes its test metrics; its log.csv and metrics.json "
        "are those of the run before pruning"
    )
    return 0


def suggest(arguments: Namespace) -> int:
    """Run ``edgewise suggest``: print a sparse graph for each layer, with its loss and time."""
    from edgewise import explain

    check_least("--batches", arguments.batches, 1, "choose for example --batches 10")
    run = load(arguments.folder)
    found = explain.suggest(
        run, coverage=arguments.coverage, split=arguments.split, max_batches=arguments.batches
    )
    say(found)
    graphs = found.fields(run.recipe)
    if not graphs:
        model = run.recipe.model.func.__name__
        say(f"\n{model} has no field for a graph, so `edgewise train` cannot use these graphs")
        return 0
    say("\nto train with the widest of these graphs in all layers:")
    say(_training(run.recipe, graphs, arguments.folder))
    return 0


def _training(recipe: Recipe, graphs: Mapping[str, str], folder: Path) -> str:
    """Return a command, or a line of Python, that trains the recipe of a run with other graphs.

    Args:
        recipe: recipe of the run.
        graphs: new values of recipe fields, such as {"model.graph": "window(2)"}.
        folder: folder of the run.
    """
    changes = _changes(recipe)
    out = _new(folder)
    if changes is None:
        recipe_text = f"edgewise.runs.with_values(run.recipe, {dict(graphs)!r})"
        return (
            f'in Python: run = edgewise.load("{folder}"); '
            f'edgewise.runs.train({recipe_text}, "{out}")'
        )
    options = [f"--{name} {shlex.quote(value)}" for name, value in {**changes, **graphs}.items()]
    return " ".join(["edgewise train", recipe.name, *options, "--out", shlex.quote(str(out))])


def _changes(recipe: Recipe) -> dict[str, str] | None:
    """Return the fields that differ from the recipe of the same name, as they would be typed.

    The result is None if no command can train the recipe, because there is no recipe of its name,
    the data are a data frame, or Python code has replaced a part of the recipe.
    """
    if recipe.name not in RECIPES:
        return None
    changed = changed_fields(recipe, RECIPES[recipe.name])
    typed = {name: as_typed(value) for name, value in changed.items()}
    if any(text.startswith(FRAME) for text in typed.values()):
        return None
    try:
        again = with_values(RECIPES[recipe.name], typed)
    except ArgumentError:
        return None
    return None if changed_fields(recipe, again) or changed_fields(again, recipe) else typed


def _new(folder: Path) -> Path:
    """Return the path of a folder that does not exist yet, next to a run folder."""
    names = (f"{folder.name}-sparse{'' if n == 1 else f'-{n}'}" for n in count(1))
    return next(path for name in names if not (path := folder.with_name(name)).exists())


def _layer_and_heads(text: str) -> tuple[str, list[int]]:
    """Parse ``LAYER:HEAD,HEAD``, such as ``0:1,3``, into a layer and the numbers of its heads.

    The layer is a name or a number.
    """
    layer, _, numbers = text.rpartition(":")
    try:
        chosen = [int(number) for number in numbers.split(",")]
    except ValueError:
        chosen = []
    if not layer or not chosen:
        raise ArgumentError(
            "--heads",
            expected="LAYER:HEAD,HEAD, with the name or number of a layer and numbers of its heads",
            got=text,
            remedy="write for example --heads 0:1,3 for two heads of the first layer",
        )
    return layer, chosen


def _name_of(layer: str, names: Sequence[str]) -> str:
    """Return the name of a layer, given its name or its number.

    Args:
        layer: name, or number from 0.
        names: names of all layers, in order.
    """
    if not layer.isdecimal():
        return layer
    if int(layer) >= len(names):
        raise ArgumentError(
            "--heads",
            expected=f"the number of a layer, from 0 to {len(names) - 1}",
            got=layer,
            remedy="choose a layer that `edgewise heads` lists",
        )
    return names[int(layer)]


def _size(run: Any) -> int:
    return sum(parameter.numel() for parameter in run.model.parameters())


def _listed(numbers: Any) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"
