"""Comparison of trained models that differ in the value of one recipe field."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.runs.recipe_fields import fields_of, with_values
from edgewise.app.runs.record import from_record, load_recipe, to_record
from edgewise.app.runs.seeds import mean_and_std, train_seeds
from edgewise.app.runs.side_by_side import Job, side_by_side
from edgewise.app.runs.train_recipe import check_same, prepare, train
from edgewise.app.train.folder import RECIPE, RunFolder
from edgewise.app.train.parsing import show_value
from edgewise.app.train.recipe import Recipe
from edgewise.graphs import Graph, Pattern
from edgewise.layers import PatchEmbedding


@dataclass(frozen=True)
class Outcome:
    """Runs with one value of the compared field, one run for each seed.

    Attributes:
        value: value of the field.
        runs: folder of each run.
        metrics: final metrics of each run.
        logs: for each run, the metrics of each epoch.
        graph: the graph over the image patches, if the field is the graph of an image model.
    """

    value: Any
    runs: list[Path]
    metrics: list[dict[str, float]]
    logs: list[list[dict[str, float]]]
    graph: Graph | None = None

    def mean(self, name: str) -> float:
        """Return the mean of the metric ``name``, such as "val/loss", over the seeds."""
        return mean_and_std(self.values(name))[0]

    def std(self, name: str) -> float:
        """Return the sample standard deviation of a metric over the seeds; 0 for one seed."""
        return mean_and_std(self.values(name))[1]

    def values(self, name: str) -> list[float]:
        """Return the values of a metric, one for each seed."""
        return [one[name] for one in self.metrics]

    @property
    def label(self) -> str:
        """Value of the compared field, as text."""
        return str(show_value(self.value))

    @property
    def edges_per_token(self) -> float | None:
        """Mean in-degree of the image patches; None if there is no ``graph``."""
        return None if self.graph is None else self.graph.num_edges / self.graph.num_targets


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`compare`.

    Attributes:
        recipe: the recipe that was trained.
        field: name of the compared field.
        outcomes: runs with each value, in the order in which the values were given.
    """

    recipe: Recipe
    field: str
    outcomes: list[Outcome]

    @property
    def best(self) -> Outcome:
        """Outcome with the best mean of the monitored metric.

        Ties go to the lowest validation loss, then to the first outcome.
        """
        trainer = self.recipe.trainer
        sign = 1 if trainer.mode == "min" else -1

        def key(outcome: Outcome) -> tuple[float, ...]:
            means = sign * outcome.mean(trainer.monitor), outcome.mean("val/loss")
            # The metric is NaN if the training diverged.
            return tuple(math.inf if math.isnan(mean) else mean for mean in means)

        return min(self.outcomes, key=key)


def compare(
    recipe: Recipe,
    field: str,
    values: Sequence[str],
    path: Path,
    *,
    seeds: int | None = None,
    workers: int | None = None,
    resume: bool = False,
) -> Comparison:
    """Train a recipe once for each value of a field.

    Args:
        recipe: recipe to train.
        field: dotted name of the field, such as ``model.graph``.
        values: values as typed on the command line.
        path: folder in which each value gets a run folder.
        seeds: number of seeds to train with for each value. None trains once, with the recipe's
            seed.
        workers: number of values to train for in parallel, each in a process with one thread. None
            trains for one value after another in this process.
        resume: whether to resume an unfinished comparison in ``path``.

    Raises:
        ArgumentError: the field does not exist, a value is invalid, or two values are equal. All
            values are checked before the first training.
        RunExistsError: the folder is not empty, and ``resume`` is false.

    Example:
        >>> from pathlib import Path
        >>> from edgewise.app import runs
        >>> from edgewise.app.kinds import find
        >>> recipe, path = find("digits"), Path("runs/lr")
        >>> found = runs.compare(recipe, "optimizer.lr", ["0.001", "0.01"], path)  # doctest: +SKIP
        >>> found.best.value  # doctest: +SKIP
    """
    for option, number in (("--seeds", seeds), ("--workers", workers)):
        if number is not None:
            check_range(option, number, "choose for example 2", least=1)
    recipes = [with_values(recipe, {field: value}) for value in values]
    read = [fields_of(one)[field].value for one in recipes]
    folders = [path / _slug(str(show_value(value))) for value in read]
    if len(set(folders)) < len(folders):
        raise ArgumentError(
            "VALUE",
            expected="different values",
            got=", ".join(values),
            remedy="give each value once",
        )
    if not resume:
        RunFolder(path).refuse_existing()
    bound = []
    for one, value, folder in zip(recipes, read, folders, strict=True):
        model, splits = prepare(one)
        bound.append(_bind(value, model))
        if resume and RunFolder(folder).has(RECIPE):
            check_same(one, load_recipe(RunFolder(folder)), folder)
    about: dict[str, Any] = {"recipe": recipe.name, "field": field}
    about["values"] = [show_value(one) for one in read]
    about |= {} if seeds is None else {"seeds": seeds}
    drawn = [range(one.seed, one.seed + (seeds or 0)) for one in recipes]
    jobs: list[Job] = [
        (_train, (to_record(one), str(show_value(value)), seeds, folder))
        for one, value, folder in zip(recipes, read, folders, strict=True)
    ]
    with RunFolder(path).claimed("comparison.json", about, resume=resume):
        if workers is None:
            for function, arguments in jobs:
                function(*arguments)
        else:
            side_by_side(jobs, workers)
        outcomes = [
            _outcome(value, [folder / f"seed-{seed}" for seed in numbers] or [folder], graph)
            for value, folder, numbers, graph in zip(read, folders, drawn, bound, strict=True)
        ]
        return Comparison(recipe.for_targets(splits.targets, splits.class_counts), field, outcomes)


def _train(record: dict[str, Any], value: str, seeds: int | None, folder: Path) -> None:
    """Train a recipe that has one value of the compared field.

    Args:
        record: the recipe in JSON form, which can be sent to another process.
        value: value of the field, as text, for the title of the progress display.
        seeds: number of seeds to train with, or None to train once.
        folder: run folder.
    """
    recipe, started = from_record(record), RunFolder(folder).has(RECIPE)
    title = f"{recipe.name} {value}"
    if seeds is None:
        train(recipe, folder, resume=started, title=title)
    else:
        train_seeds(recipe, seeds, folder, resume=started, title=title)


def _outcome(value: Any, folders: list[Path], graph: Graph | None) -> Outcome:
    runs = [RunFolder(one) for one in folders]
    metrics = [run.read_metrics() for run in runs]
    return Outcome(value, folders, metrics, [run.read_log() for run in runs], graph)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", text).strip("-") or "value"


def _bind(value: Any, model: nn.Module) -> Graph | None:
    """Return the attention graph over the patches of an image model.

    Args:
        value: value of the compared field. The result is None unless it is a pattern, a graph
            for any number of nodes.
        model: the trained model. The result is None unless it is an image model.
    """
    patches = [layer.num_patches for layer in model.modules() if isinstance(layer, PatchEmbedding)]
    return value.bind(patches[0]) if isinstance(value, Pattern) and patches else None
