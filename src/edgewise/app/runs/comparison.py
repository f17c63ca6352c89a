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
from edgewise.app.runs.record import check_resumed, from_record, to_record
from edgewise.app.runs.seeds import mean_and_std, train_seeds
from edgewise.app.runs.side_by_side import Job, side_by_side
from edgewise.app.runs.train_recipe import prepare, train
from edgewise.app.train.folder import RECIPE, RunFolder
from edgewise.app.train.parsing import show_value
from edgewise.app.train.recipe import Recipe
from edgewise.graphs import Graph, Pattern
from edgewise.layers import PatchEmbedding


@dataclass(frozen=True)
class Outcome:
    """Runs with one value of the compared field: folder, metrics and log of epochs of each seed,
    and the graph over the image patches, if it is the field.
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
        return [metrics[name] for metrics in self.metrics]

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
    """Result of :func:`compare`: runs with each value of a field, in the given order.

    Example:
        >>> from pathlib import Path
        >>> from edgewise.app import kinds, runs
        >>> graphs = ["window(1)", "complete()"]
        >>> recipe = kinds.find("digits")
        >>> compared = runs.compare(recipe, "model.graph", graphs, Path("runs/a"))  # doctest: +SKIP
        >>> compared.best.label  # doctest: +SKIP
        'complete()'
    """

    recipe: Recipe
    field: str
    outcomes: list[Outcome]

    @property
    def best(self) -> Outcome:
        """Outcome with the best mean of the monitored metric; ties go to the lowest validation
        loss.
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
    """
    for option, number in (("--seeds", seeds), ("--workers", workers)):
        if number is not None:
            check_range(option, number, "choose for example 2", least=1)
    recipes = [with_values(recipe, {field: value}) for value in values]
    typed_values = [fields_of(changed)[field].value for changed in recipes]
    labels = [str(show_value(value)) for value in typed_values]
    folders = [path / _slug(label) for label in labels]
    if len(set(folders)) < len(folders):
        raise ArgumentError(
            "VALUE",
            expected="different values",
            got=", ".join(values),
            remedy="give each value once",
        )
    if not resume:
        RunFolder(path).refuse_existing()
    graphs = []
    for changed, value, folder in zip(recipes, typed_values, folders, strict=True):
        model, splits = prepare(changed)
        graphs.append(_patch_graph(value, model))
        if resume and RunFolder(folder).has(RECIPE):
            check_resumed(RunFolder(folder), changed)
    about: dict[str, Any] = {"recipe": recipe.name, "field": field}
    about["values"] = [show_value(value) for value in typed_values]
    about |= {} if seeds is None else {"seeds": seeds}
    jobs: list[Job] = [
        (_train, (to_record(changed), label, seeds, folder))
        for changed, label, folder in zip(recipes, labels, folders, strict=True)
    ]
    with RunFolder(path).claimed("comparison.json", about, resume=resume):
        if workers is None:
            for function, arguments in jobs:
                function(*arguments)
        else:
            side_by_side(jobs, workers)
        outcomes = []
        for changed, value, folder, graph in zip(
            recipes, typed_values, folders, graphs, strict=True
        ):
            numbers = range(changed.seed, changed.seed + (seeds or 0))
            paths = [folder / f"seed-{seed}" for seed in numbers] or [folder]
            runs = [RunFolder(run) for run in paths]
            metrics, logs = [run.read_metrics() for run in runs], [run.read_log() for run in runs]
            outcomes.append(Outcome(value, paths, metrics, logs, graph))
        return Comparison(recipe.for_targets(splits.targets, splits.class_counts), field, outcomes)


def _train(record: dict[str, Any], label: str, seeds: int | None, folder: Path) -> None:
    """Train a recipe in JSON form, which can be sent to another process."""
    recipe, started = from_record(record), RunFolder(folder).has(RECIPE)
    title = f"{recipe.name} {label}"
    if seeds is None:
        train(recipe, folder, resume=started, title=title)
    else:
        train_seeds(recipe, seeds, folder, resume=started, title=title)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "-", text).strip("-") or "value"


def _patch_graph(value: Any, model: nn.Module) -> Graph | None:
    """Return the graph over the patches if ``value`` is a pattern and ``model`` reads images."""
    patches = [layer.num_patches for layer in model.modules() if isinstance(layer, PatchEmbedding)]
    return value.bind(patches[0]) if isinstance(value, Pattern) and patches else None
