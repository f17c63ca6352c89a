"""The same recipe with several seeds, and the mean and deviation of its metrics."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path

from edgewise.errors import ArgumentError
from edgewise.recipes.recipe import Recipe
from edgewise.recipes.record import load_recipe, to_record
from edgewise.recipes.train import check_same, evaluate_one, prepare, train
from edgewise.training import RunFolder

Summary = dict[str, dict[str, float | list[float]]]


def train_seeds(recipe: Recipe, seeds: int, path: Path, *, resume: bool = False) -> Summary:
    """Train with ``seeds`` seeds from the recipe's on, each into a folder of its own.

    Finished seeds are not trained again on ``resume``.

    Returns:
        ``{"mean", "std", "values"}`` by metric, as in ``metrics.json``; ``std`` is the sample's
        (n - 1), and 0 for one seed.

    Raises:
        As :func:`edgewise.recipes.train`.

    """
    if seeds < 1:
        raise ArgumentError(
            "--seeds", expected="at least 1", got=str(seeds), remedy="choose for example 10"
        )
    folder = RunFolder(path)
    if resume:
        check_same(recipe, load_recipe(folder), path)
        _refuse_single(folder)
    else:
        folder.refuse_existing()
        prepare(recipe)  # refuses before anything is written
        folder.create()
        folder.write_json("recipe.json", to_record(recipe))
    runs = []
    for seed in range(recipe.seed, recipe.seed + seeds):
        own = path / f"seed-{seed}"
        started = RunFolder(own).has("recipe.json")
        one = replace(recipe, seed=seed)
        runs.append(train(one, own, resume=started, title=f"{recipe.name} seed {seed}"))
    summary = summarise(runs)
    folder.write_json("metrics.json", summary)
    return summary


def _refuse_single(folder: RunFolder) -> None:
    if folder.checkpoint.exists() or folder.weights.exists():
        raise ArgumentError(
            "--seeds",
            expected=f"none, as the run in {folder.path} was started without",
            got="some",
            remedy="leave it out, or start a new run with --out",
        )


def summarise(runs: list[dict[str, float]]) -> Summary:
    """Mean, standard deviation and values of each metric that all runs have."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    summary: Summary = {}
    for name in names:
        values = [run[name] for run in runs]
        std = statistics.stdev(values) if len(values) > 1 else 0.0
        summary[name] = {"mean": statistics.fmean(values), "std": std, "values": values}
    return summary


def evaluate_run(path: Path) -> dict[str, float] | Summary:
    """Metrics of a finished run's weights, or of every seed's in a folder of several seeds.

    ``recipe.json`` and ``model.safetensors`` are all that is read of it.

    Raises:
        MissingDataError: there is no such run, or it has not finished.

    """
    seeds = sorted(path.glob("seed-*/recipe.json"), key=_number)
    if seeds:
        return summarise([evaluate_one(found.parent) for found in seeds])
    return evaluate_one(path)


def _number(found: Path) -> int:
    return int(found.parent.name.removeprefix("seed-"))
