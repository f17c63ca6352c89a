"""Training with several seeds or folds, and the mean and standard deviation of the metrics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.runs.recipe_fields import fields_of, with_values
from edgewise.app.runs.record import check_resumed, load_recipe, to_record
from edgewise.app.runs.recorded import evaluate_one
from edgewise.app.runs.train_recipe import prepare, train
from edgewise.app.train.folder import METRICS, RECIPE, RunFolder
from edgewise.app.train.held_out import ensemble_metrics
from edgewise.app.train.process import rank_and_world_size
from edgewise.app.train.recipe import Recipe

Summary = dict[str, dict[str, float | list[float]]]


def train_seeds(
    recipe: Recipe, seeds: int, path: Path, *, resume: bool = False, title: str | None = None
) -> Summary:
    """Train with several consecutive seeds, each in a separate run folder.

    Args:
        recipe: recipe to train; its seed is the first seed.
        seeds: number of seeds.
        path: folder for the run folders.
        resume: whether to resume the runs in the folder. Finished seeds are not trained again.
        title: title of the progress display. Defaults to the recipe's name.

    Returns:
        For each metric, a dict with the keys "mean", "std" and "values" (one value per seed), as in
        ``metrics.json``. "std" is the sample standard deviation (n - 1); it is 0 for one seed. If
        the data describe their targets, the key "ensemble" has the metric of the mean prediction.

    Raises:
        See :func:`edgewise.app.runs.train`.
    """
    check_range("--seeds", seeds, "choose for example 10", least=1)
    recipes = {
        f"seed-{seed}": replace(recipe, seed=seed)
        for seed in range(recipe.seed, recipe.seed + seeds)
    }
    return _train_each("seed", recipe, recipes, path, train, resume=resume, title=title)


def train_folds(
    recipe: Recipe, path: Path, *, seeds: int | None = None, resume: bool = False
) -> Summary:
    """Cross-validate: train for each of ``data.folds`` folds, with this fold as the test set.

    With ``seeds``, a fold is trained with several seeds. Its value of a metric is then that of the
    mean prediction, or, if the data do not describe their targets, the mean over the seeds. The
    other arguments and the result are as in :func:`train_seeds`.

    Raises:
        ArgumentError: the recipe's data have no folds.
    """

    def train_fold(fold: Recipe, to: Path, *, resume: bool, title: str) -> dict[str, float]:
        if seeds is None:
            return train(fold, to, resume=resume, title=title)
        return single_values(train_seeds(fold, seeds, to, resume=resume, title=title))

    return _train_each("fold", recipe, fold_recipes(recipe), path, train_fold, resume=resume)


def fold_recipes(recipe: Recipe) -> dict[str, Recipe]:
    """Return a recipe for each fold, with this fold as the test set, by name of its run folder."""
    folds = fields_of(recipe).get("data.folds")
    if folds is None:
        raise ArgumentError(
            "--folds",
            expected="a recipe whose data have folds (the field data.folds)",
            got=f"the recipe {recipe.name}, whose data have a fixed split",
            remedy="use --seeds instead of --folds",
        )
    return {f"fold-{k}": with_values(recipe, {"data.fold": k}) for k in range(folds.value)}


def measure(recipe: Recipe, path: Path, *, resume: bool = False) -> dict[str, float] | Summary:
    """Train by the recipe's measurement protocol: once, with several seeds, or on each fold."""
    protocol = recipe.protocol
    if protocol is not None and protocol.folds:
        return train_folds(recipe, path, seeds=protocol.seeds or None, resume=resume)
    if protocol is not None and protocol.seeds:
        return train_seeds(recipe, protocol.seeds, path, resume=resume)
    return train(recipe, path, resume=resume)


def _train_each(
    kind: str,
    recipe: Recipe,
    recipes: dict[str, Recipe],
    path: Path,
    train_one: Callable[..., dict[str, float]],
    *,
    resume: bool,
    title: str | None = None,
) -> Summary:
    folder, (_, world_size) = RunFolder(path), rank_and_world_size()
    if world_size > 1:
        raise ArgumentError(
            f"--{kind}s",
            expected="one training, as torchrun or srun has started several processes",
            got=f"a training for each {kind}",
            remedy="call `edgewise train` with --trainer.devices instead, or train each seed by a "
            "command of its own",
        )
    if resume:
        check_resumed(folder, recipe, kind)
    else:
        folder.refuse_existing()
        prepare(recipe)  # Errors are raised before the folder is created.
    with folder.claimed(RECIPE, to_record(recipe), resume=resume):
        metrics = []
        for name, member in recipes.items():
            started = RunFolder(path / name).has(RECIPE)
            member_title = f"{title or recipe.name} {name.replace('-', ' ')}"
            metrics.append(train_one(member, path / name, resume=started, title=member_title))
        summary = _summarise(recipe, [path / name for name in recipes], metrics)
        folder.write_json(METRICS, summary)
        return summary


def _summarise(recipe: Recipe, folders: list[Path], metrics: list[dict[str, float]]) -> Summary:
    """Summarise the metrics of runs, and for seeds those of the mean prediction ("ensemble")."""
    summary = summarise(metrics)
    if folders[0].name.startswith("seed-"):
        for name, value in ensemble_metrics(recipe, folders).items():
            summary[name]["ensemble"] = value
    return summary


def summarise(runs: list[dict[str, float]]) -> Summary:
    """Return the mean, standard deviation and values of each metric that all runs have."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    summary: Summary = {}
    for name in names:
        values = [run[name] for run in runs]
        mean, std = mean_and_std(values)
        summary[name] = {"mean": mean, "std": std, "values": values}
    return summary


def single_values(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return a number for each metric: for several runs, that of the mean prediction, if it was
    measured, or the mean over runs, but the sum of times.
    """
    values = {}
    for name, value in metrics.items():
        if not isinstance(value, Mapping):
            values[name] = value
        elif name in ("seconds", "cpu_seconds"):
            values[name] = sum(value["values"])
        else:
            values[name] = value.get("ensemble", value["mean"])
    return values


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and sample standard deviation; both are NaN if a value is not finite."""
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def evaluate_run(path: Path) -> dict[str, float] | Summary:
    """Evaluate the weights of a finished run, or of the runs for several seeds or folds.

    From the folder of a run, only ``recipe.json``, ``model.safetensors`` and ``tokenizer.json``
    are read, and for the mean prediction of several seeds the outputs that each of them kept.

    Raises:
        MissingDataError: the run does not exist, or has not finished.
    """
    folders = RunFolder(path).runs()
    if not folders:
        return evaluate_one(path)
    metrics = [single_values(evaluate_run(folder)) for folder in folders]
    return _summarise(load_recipe(RunFolder(path)), folders, metrics)
