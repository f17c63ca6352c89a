"""Commands ``edgewise heads``, ``prune`` and ``suggest``, on the attention heads of a run."""

from __future__ import annotations

import math
import shlex
from argparse import Namespace
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from edgewise import explain
from edgewise._utils.arguments import check_range
from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError
from edgewise.app.cli.output import say, table
from edgewise.app.cli.saving import save_figure
from edgewise.app.explain.pruned_runs import save_pruned
from edgewise.app.explain.suggestion import suggest as suggest_graphs
from edgewise.app.files.frames import FRAME
from edgewise.app.kinds import RECIPES
from edgewise.app.runs.recipe_fields import changed_fields, fields_of, with_values
from edgewise.app.runs.run import load
from edgewise.app.train.folder import RunFolder, figure_format
from edgewise.app.train.parsing import as_typed
from edgewise.app.train.recipe import Recipe
from edgewise.explain.figures import OF_ORDER
from edgewise.explain.losses import losses_of
from edgewise.explain.pruning import heads_by_name, remaining_heads

STATISTICS = {
    "relative_entropy": (
        "entropy",
        "entropy of the weights, divided by the entropy of equal weights",
    ),
    "distance": ("distance", "distance between source and target"),
    "own": ("own", "weight of the target itself"),
    "first": ("first", "weight of the first node of the input"),
    "hubs": ("hubs", "weight of nodes that receive more than 4 times the mean weight"),
}
"""Columns of the printed table: attribute of :class:`edgewise.explain.HeadStatistics`, with the
title and the meaning of its column."""


def heads(arguments: Namespace) -> int:
    """Run ``edgewise heads``: print importance and statistics of each head."""
    check_range("--batches", arguments.batches, "choose for example --batches 10", least=1)
    if arguments.draw is not None:
        figure_format(arguments.draw)
    run = load(arguments.folder)
    losses = losses_of(run, split=arguments.split, max_batches=arguments.batches)
    scores = explain.importance(run, losses.batches, losses.loss, by=arguments.by)
    middle = losses.batches[len(losses.batches) // 2 :]
    recorded = explain.recorded_batch(run, middle, losses.loss)
    ordered = run.predictor.ordered
    columns = [name for name in STATISTICS if ordered or name not in OF_ORDER]
    cells = [["layer", "head", "importance", *(STATISTICS[name][0] for name in columns)]]
    for layer, statistics in zip(recorded, explain.statistics(recorded), strict=True):
        name = f"{recorded.number(layer)}: {layer.name}"
        importance = scores.get(layer.module)
        for position, head in enumerate(statistics.heads):
            values = [float(getattr(statistics, column)[position]) for column in columns]
            values = [math.nan if importance is None else float(importance[position]), *values]
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
    for name in columns:
        say(": ".join(STATISTICS[name]))
    if ordered:
        say(f"\nthree observations, in the same batch:\n{explain.observations(recorded)}")
    if arguments.draw is not None:
        save_figure(arguments.draw, explain.draw_statistics(recorded, scores, ordered=ordered))
    return 0


def prune(arguments: Namespace) -> int:
    """Run ``edgewise prune``: remove heads, write a new run folder, and print both losses."""
    check_range("--batches", arguments.batches, "choose for example --batches 10", least=1)
    if (arguments.fraction is None) == (not arguments.heads):
        raise ArgumentError(
            "--fraction",
            expected="either a fraction of the heads with --fraction, or heads with --heads",
            got="both" if arguments.heads else "neither",
            remedy="give --fraction 0.2, or --heads LAYER:HEAD,HEAD for each layer",
        )
    RunFolder(arguments.out).refuse_existing(resumable=False)
    RunFolder(arguments.folder).refuse_several()
    heads = _heads_by_layer(arguments.heads or ())
    run = load(arguments.folder)
    # These checks raise their errors before the data are read and losses are computed.
    remaining_heads(run, {layer: heads[layer] for layer in heads if isinstance(layer, str)})
    layers = explain.layers_with_heads(run)
    max_fraction = 1 - len(layers) / sum(map(len, layers.values()))
    if arguments.fraction is not None and not 0 <= arguments.fraction <= max_fraction:
        raise ArgumentError(
            "--fraction",
            expected=f"a fraction from 0 to {max_fraction:.2f}, which leaves one head in each "
            "layer",
            got=f"{arguments.fraction:g}",
            remedy="choose a smaller fraction" if arguments.fraction > 0 else "choose 0.2",
        )
    names = explain.recorded_batch(run, split=arguments.split).modules
    if arguments.fraction is not None:
        scores = explain.importance(
            run, by=arguments.by, split=arguments.split, max_batches=arguments.batches
        )
        least = explain.least_important(
            scores, arguments.fraction, layers, normalise=arguments.by == "gradient"
        )
        heads.update(least.items())
    remaining_heads(run, heads, names)
    size = _size(run)
    losses = losses_of(run, split=arguments.split)
    full = losses.mean()
    explain.prune(run, heads_by_name(run, heads, names))
    path = save_pruned(run, arguments.out)
    left = explain.layers_with_heads(run)
    cells = [
        [f"{number}: {name}", _listed(set(layers[name]) - set(left[name])), _listed(left[name])]
        for number, name in enumerate(names)
        if name in layers
    ]
    say(table([["layer", "removed", "left"], *cells], left=3))
    say(f"\nweights: {size:,} before, {_size(run):,} after")
    after = rounded(float(losses.mean()))
    say(f"{arguments.split} loss: {rounded(float(full))} before, {after} after")
    say(
        f"{path}: `edgewise test {shlex.quote(str(path))}` computes its test metrics; its log.csv "
        "and metrics.json are those of the run before pruning"
    )
    return 0


def suggest(arguments: Namespace) -> int:
    """Run ``edgewise suggest``: print a sparse graph for each layer, with its loss and time."""
    check_range("--batches", arguments.batches, "choose for example --batches 10", least=1)
    run = load(arguments.folder)
    suggestion = suggest_graphs(
        run, coverage=arguments.coverage, split=arguments.split, max_batches=arguments.batches
    )
    say(suggestion)
    if not suggestion.is_faster:
        say("\nnothing is gained: these graphs take about as long as full attention here")
    graphs = suggestion.fields(run.recipe)
    if not graphs:
        model = run.recipe.model.func.__name__
        say(f"\n{model} has no field for a graph, so `edgewise train` cannot use these graphs")
        return 0
    where, line = _training(run.recipe, graphs, arguments.folder)
    say(f"\nto train{where} with the widest of these graphs in all layers:\n{line}")
    return 0


def _training(recipe: Recipe, graphs: Mapping[str, str], folder: Path) -> tuple[str, str]:
    """Return how to train with other graphs: a command, or " in Python" and a line of it."""
    out, fields = _new_folder(folder), _changes(recipe)
    if fields is not None:
        options = [f"--{name} {shlex.quote(text)}" for name, text in {**fields, **graphs}.items()]
        words = ["edgewise train", recipe.name, *options, "--out", shlex.quote(str(out))]
        return "", " ".join(words)
    if any(as_typed(field.value).startswith(FRAME) for field in fields_of(recipe).values()):
        where = " in Python, change the recipe with your data frame, and train it"
        return where, f"recipe = edgewise.app.runs.with_values(recipe, {dict(graphs)!r})"
    sparse = f"edgewise.app.runs.with_values(run.recipe, {dict(graphs)!r})"
    return " in Python", (
        f"import edgewise, pathlib; run = edgewise.load({str(folder)!r}); "
        f"edgewise.app.runs.train({sparse}, pathlib.Path({str(out)!r}))"
    )


def _changes(recipe: Recipe) -> dict[str, str] | None:
    """Return the fields that differ from the named recipe, or None if no command can train it."""
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


def _new_folder(folder: Path) -> Path:
    """Return the path of a folder that does not exist yet, next to a run folder."""
    names = (f"{folder.name}-sparse{'' if n == 1 else f'-{n}'}" for n in count(1))
    return next(path for name in names if not (path := folder.with_name(name)).exists())


def _heads_by_layer(texts: Iterable[str]) -> dict[str | int, list[int]]:
    """Parse texts ``LAYER:HEAD,HEAD``, such as ``0:1,3``, where the layer is a name or a number."""
    heads: dict[str | int, list[int]] = {}
    for text in texts:
        layer, _, numbers = text.rpartition(":")
        try:
            chosen = [int(number) for number in numbers.split(",")]
        except ValueError:
            chosen = []
        if not layer or not chosen:
            raise ArgumentError(
                "--heads",
                expected="LAYER:HEAD,HEAD, with the name or number of a layer and its heads",
                got=text,
                remedy="write for example --heads 0:1,3 for two heads of the first layer",
            )
        heads.setdefault(layer_of(layer), []).extend(chosen)
    return heads


def layer_of(text: str) -> str | int:
    """Return a layer of the command line as a number, if it is one, or as a name."""
    return int(text) if text.isdecimal() else text


def _size(run: Any) -> int:
    return sum(parameter.numel() for parameter in run.model.parameters())


def _listed(numbers: Any) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"
