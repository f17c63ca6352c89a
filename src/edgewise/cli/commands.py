"""Functions of the commands, which call the rest of the package."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from edgewise import recipes, runs
from edgewise.cli.listing import KINDS, listing, shown
from edgewise.cli.table import metrics_table
from edgewise.errors import ArgumentError
from edgewise.training import RunFolder
from edgewise.training.folder import METRICS, RECIPE

__all__ = [
    "KINDS",
    "compare",
    "doctor",
    "explain",
    "list_names",
    "predict",
    "show",
    "test",
    "train",
    "verify",
]

Fields = dict[str, str]


def list_names(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise list``."""
    print(listing(arguments.kind))
    return 0


def show(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise show``."""
    print(shown(arguments.name, draw=arguments.draw, nodes=arguments.nodes))
    return 0


def train(arguments: Namespace, fields: Fields) -> int:
    """Run ``edgewise train``."""
    recipe = _recipe(arguments, fields)
    out = arguments.out or Path("runs") / recipe.name
    if arguments.folds:
        print(metrics_table(runs.train_folds(recipe, out, resume=arguments.resume)))
    elif arguments.seeds is None:
        print(metrics_table(runs.train(recipe, out, resume=arguments.resume)))
    else:
        summary = runs.train_seeds(recipe, arguments.seeds, out, resume=arguments.resume)
        print(metrics_table(summary))
    _print_notes(recipe)
    several = arguments.seeds or arguments.folds
    print(f"\n{out}: {RECIPE}, {METRICS}" + ("" if several else " and more"))
    return 0


def compare(arguments: Namespace, fields: Fields) -> int:
    """Run ``edgewise compare``."""
    from edgewise.cli.report import write_report
    from edgewise.cli.table import Measured, comparison_table

    recipe = _recipe(arguments, fields)
    if arguments.field in fields or (arguments.field == "seed" and arguments.seed is not None):
        raise ArgumentError(
            f"--{arguments.field}",
            expected="fields other than the compared one",
            got="the same field",
            remedy="leave it out",
        )
    out = arguments.out or Path("runs") / f"{recipe.name}-{arguments.field}"
    found = runs.compare(
        recipe,
        arguments.field,
        arguments.values,
        out,
        seeds=arguments.seeds,
        workers=arguments.workers,
        resume=arguments.resume,
    )
    split: Measured = "test" if arguments.test else "val"
    print(comparison_table(found, split))
    for path in write_report(found, out, split):
        print(path)
    return 0


def test(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise test``."""
    print(metrics_table(runs.evaluate_run(arguments.folder)))
    _print_notes(runs.load_recipe(RunFolder(arguments.folder)))
    return 0


def predict(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise predict``."""
    from edgewise.cli.predict import predict

    return predict(arguments)


def explain(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise explain``."""
    from edgewise.cli.explain import explain

    return explain(arguments)


def influence(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise influence``."""
    from edgewise.cli.influence import influence

    return influence(arguments)


def heads(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise heads``."""
    from edgewise.cli.heads import heads

    return heads(arguments)


def prune(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise prune``."""
    from edgewise.cli.heads import prune

    return prune(arguments)


def suggest(arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise suggest``."""
    from edgewise.cli.heads import suggest

    return suggest(arguments)


def verify(_arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise verify``."""
    from edgewise.cli.verify import run

    return run()


def doctor(_arguments: Namespace, _fields: Fields) -> int:
    """Run ``edgewise doctor``."""
    from edgewise.cli.doctor import report

    print(report())
    return 0


def _print_notes(recipe: recipes.Recipe) -> None:
    for name, note in recipe.task.notes().items():
        print(f"{name}: {note}")


def _recipe(arguments: Namespace, fields: Fields) -> recipes.Recipe:
    if arguments.seed is not None:
        fields = {**fields, "seed": arguments.seed}
    if arguments.start is not None:
        fields = {**fields, "from": arguments.start}
    if arguments.model is not None:
        fields = {**fields, "model": arguments.model}
    return runs.with_values(recipes.find(arguments.recipe), fields)
