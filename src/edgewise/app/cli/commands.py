"""Commands ``edgewise train``, ``compare`` and ``test``. Each function returns the exit code."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgewise._utils.errors import ArgumentError, require
from edgewise.app import runs
from edgewise.app.cli.baseline import comparison
from edgewise.app.cli.output import Measured, comparison_table, metrics_table, say
from edgewise.app.kinds import find
from edgewise.app.runs.fine_tuning import with_architecture
from edgewise.app.runs.hybrid import parts_note
from edgewise.app.runs.train_recipe import train_on_splits
from edgewise.app.train.baseline import NoBaselineError
from edgewise.app.train.folder import METRICS, RECIPE, RunFolder
from edgewise.app.train.process import rank_and_world_size
from edgewise.app.train.recipe import Recipe


def train(arguments: Namespace) -> int:
    """Run ``edgewise train``: train a recipe, and print its metrics beside a quick baseline."""
    out = arguments.out
    recipe, splits = _recipe(arguments, out), None
    metrics: Mapping[str, Any]
    if arguments.folds:
        metrics = runs.train_folds(recipe, out, seeds=arguments.seeds, resume=arguments.resume)
    elif arguments.seeds is None:
        metrics, splits = train_on_splits(recipe, out, resume=arguments.resume)
    else:
        metrics = runs.train_seeds(recipe, arguments.seeds, out, resume=arguments.resume)
    if rank_and_world_size()[0]:  # Of several processes, the first prints.
        return 0
    say(metrics_table(metrics))
    _print_notes(recipe, out)
    if not arguments.folds:
        try:
            say(comparison(recipe, metrics, out, splits))
        except NoBaselineError:
            pass
        except Exception as error:  # The run is saved: a baseline must not fail the command.
            say(f"baseline: not measured. {error}")
    several = arguments.seeds or arguments.folds
    say(f"\n{out}: {RECIPE}, {METRICS}" + ("" if several else " and more"))
    return 0


def compare(arguments: Namespace) -> int:
    """Run ``edgewise compare``: train a recipe for each value of a field, and write a report."""
    require("matplotlib", extra="plot", purpose="drawing a report")
    from edgewise.app.cli.report import write_report

    recipe = _recipe(arguments)
    if arguments.field in arguments.fields or (
        arguments.field == "seed" and arguments.seed is not None
    ):
        raise ArgumentError(
            f"--{arguments.field}",
            expected="options for fields other than the compared one",
            got=f"an option for the compared field, {arguments.field}",
            remedy=f"omit --{arguments.field}, because `edgewise compare` sets this field",
        )
    compared = runs.compare(
        recipe,
        arguments.field,
        arguments.values,
        arguments.out,
        seeds=arguments.seeds,
        workers=arguments.workers,
        resume=arguments.resume,
    )
    split: Measured = "test" if arguments.test else "val"
    say(comparison_table(compared, split))
    for path in write_report(compared, arguments.out, split):
        say(path)
    return 0


def test(arguments: Namespace) -> int:
    """Run ``edgewise test``: evaluate a run on its test set and print the metrics."""
    say(metrics_table(runs.evaluate_run(arguments.folder)))
    _print_notes(runs.load_recipe(RunFolder(arguments.folder)), arguments.folder)
    return 0


def _print_notes(recipe: Recipe, out: Path) -> None:
    """Print the notes of a task, and the fraction of each part of a hybrid model."""
    for name, note in recipe.task.notes().items():
        say(f"{name}: {note}")
    folders = RunFolder(out).runs()
    for path in folders or [out]:
        parts = parts_note(RunFolder(path))
        if parts:
            say(f"{f'{path.name}: ' * bool(folders)}{parts}")


def _recipe(arguments: Namespace, out: Path | None = None) -> Recipe:
    """Return the recipe of the command, with the architecture of the run that ``--from`` names."""
    recipe = find(arguments.recipe)
    if arguments.model is not None:
        recipe = runs.with_values(recipe, {"model": arguments.model})
    if arguments.start:
        folder = Path(arguments.start)
        if out is not None and arguments.resume and RunFolder(out).has(RECIPE):
            folder = out
        recipe = with_architecture(recipe, RunFolder(folder))
    options = {"seed": arguments.seed, "from": arguments.start}
    overrides = {name: value for name, value in options.items() if value is not None}
    return runs.with_values(recipe, arguments.fields | overrides)
