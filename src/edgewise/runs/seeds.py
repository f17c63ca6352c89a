"""The same recipe with several seeds or on every fold: mean and deviation of its metrics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgewise.arguments import check_least
from edgewise.errors import ArgumentError
from edgewise.recipes.recipe import Recipe
from edgewise.runs.recipe_fields import fields_of, with_values
from edgewise.runs.record import load_recipe, to_record
from edgewise.runs.train_recipe import check_same, evaluate_one, prepare, refuse_other_kind, train
from edgewise.training import RunFolder
from edgewise.training.folder import METRICS, RECIPE

Summary = dict[str, dict[str, float | list[float]]]


def train_seeds(
    recipe: Recipe, seeds: int, path: Path, *, resume: bool = False, title: str | None = None
) -> Summary:
    """Train with ``seeds`` seeds from the recipe's on, each into a folder of its own.

    Finished seeds are not trained again on ``resume``.

    Returns:
        ``{"mean", "std", "values"}`` by metric, as in ``metrics.json``; ``std`` is the sample's
        (n - 1), and 0 for one seed.

    Raises:
        As :func:`edgewise.runs.train`.

    """
    check_least("--seeds", seeds, 1, "choose for example 10")
    numbers = range(recipe.seed, recipe.seed + seeds)
    runs = {f"seed-{seed}": replace(recipe, seed=seed) for seed in numbers}
    return _train_each("seed", recipe, runs, path, resume=resume, title=title)


def train_folds(recipe: Recipe, path: Path, *, resume: bool = False) -> Summary:
    """Cross-validation: train once with each fold of the data as the test split.

    Takes ``data.folds`` trainings, and else what :func:`train_seeds` takes and gives.

    Raises:
        ArgumentError: the recipe's data are not dealt into folds.

    """
    folds = fields_of(recipe).get("data.folds")
    if folds is None:
        raise ArgumentError(
            "--folds",
            expected="data that are dealt into folds (the field data.folds)",
            got=f"the recipe {recipe.name}, whose data have one split",
            remedy="use --seeds",
        )
    runs = {f"fold-{k}": with_values(recipe, {"data.fold": k}) for k in range(folds.value)}
    return _train_each("fold", recipe, runs, path, resume=resume)


def measure(recipe: Recipe, path: Path, *, resume: bool = False) -> dict[str, float] | Summary:
    """Train as the recipe's protocol says: once, with its seeds, or on each fold.

    Raises:
        As :func:`edgewise.runs.train`.

    """
    protocol = recipe.protocol
    if protocol is not None and protocol.folds:
        return train_folds(recipe, path, resume=resume)
    if protocol is not None and protocol.seeds:
        return train_seeds(recipe, protocol.seeds, path, resume=resume)
    return train(recipe, path, resume=resume)


def _train_each(
    kind: str,
    recipe: Recipe,
    runs: dict[str, Recipe],
    path: Path,
    *,
    resume: bool,
    title: str | None = None,
) -> Summary:
    folder = RunFolder(path)
    if resume:
        check_same(recipe, load_recipe(folder), path)
        refuse_other_kind(folder, kind)
    else:
        folder.refuse_existing()
        prepare(recipe)  # refuses before anything is written, as does the next line
    with folder.claimed(RECIPE, to_record(recipe), resume=resume):
        metrics = []
        for name, one in runs.items():
            started = RunFolder(path / name).has(RECIPE)
            own = f"{title or recipe.name} {name.replace('-', ' ')}"
            metrics.append(train(one, path / name, resume=started, title=own))
        summary = summarise(metrics)
        folder.write_json(METRICS, summary)
        return summary


def summarise(runs: list[dict[str, float]]) -> Summary:
    """Mean, standard deviation and values of each metric that all runs have."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    summary: Summary = {}
    for name in names:
        values = [run[name] for run in runs]
        mean, std = mean_and_std(values)
        summary[name] = {"mean": mean, "std": std, "values": values}
    return summary


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the sample's standard deviation, 0 of one; NaN where a value is not finite."""
    if not all(map(math.isfinite, values)):
        return math.nan, math.nan
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def evaluate_run(path: Path) -> dict[str, float] | Summary:
    """Metrics of a finished run's weights, or of each seed or fold in a folder of several.

    ``recipe.json`` and ``model.safetensors`` are all that is read of it.

    Raises:
        MissingDataError: there is no such run, or it has not finished.

    """
    for kind in ("seed", "fold"):
        found = sorted(path.glob(f"{kind}-*/{RECIPE}"), key=_number)
        if found:
            return summarise([evaluate_one(one.parent) for one in found])
    return evaluate_one(path)


def _number(found: Path) -> int:
    return int(found.parent.name.rpartition("-")[2])
