"""What each command does, in the words of the rest of the package."""

from __future__ import annotations

import io
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise import recipes, runs
from edgewise.cli.listing import KINDS, listing, shown
from edgewise.cli.table import metrics_table
from edgewise.errors import ArgumentError
from edgewise.training import RunFolder
from edgewise.training.folder import METRICS, RECIPE

if TYPE_CHECKING:
    from edgewise.inference import Predictor, Run

__all__ = [
    "KINDS",
    "compare",
    "doctor",
    "generate",
    "list_names",
    "predict",
    "separate",
    "show",
    "test",
    "train",
    "translate",
    "verify",
]

Fields = dict[str, str]


def list_names(arguments: Namespace, _fields: Fields) -> int:
    """``edgewise list``."""
    print(listing(arguments.kind))
    return 0


def show(arguments: Namespace, _fields: Fields) -> int:
    """``edgewise show``."""
    print(shown(arguments.name, draw=arguments.draw, nodes=arguments.nodes))
    return 0


def train(arguments: Namespace, fields: Fields) -> int:
    """``edgewise train``."""
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
    """``edgewise compare``."""
    from edgewise.cli.report import write_report
    from edgewise.cli.table import Measured, comparison_table

    recipe = _recipe(arguments, fields)
    if arguments.field in fields or (arguments.field == "seed" and arguments.seed is not None):
        raise ArgumentError(
            f"--{arguments.field}",
            expected="fields other than the one that is compared",
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


def separate(arguments: Namespace, _fields: Fields) -> int:
    """``edgewise separate``."""
    from edgewise.cli.separate import draw_separation, separation_table
    from edgewise.runs.separation import separation

    found = separation(arguments.models, arguments.runs)
    print(separation_table(found))
    if arguments.draw is not None:
        draw_separation(found, arguments.draw)
        print(arguments.draw)
    return 0


def test(arguments: Namespace, _fields: Fields) -> int:
    """``edgewise test``."""
    print(metrics_table(runs.evaluate_run(arguments.folder)))
    _print_notes(runs.load_recipe(RunFolder(arguments.folder)))
    return 0


def generate(arguments: Namespace, _fields: Fields) -> int:
    """``edgewise generate``."""
    from edgewise.inference.continuations import Continuations

    run = _loaded(arguments.folder, Continuations, "a language model, as gpt-shakespeare")
    names = ("tokens", "temperature", "top_k", "top_p", "seed")
    chosen = {name: getattr(arguments, name) for name in names}
    (answer,) = run.predict([arguments.prompt], **chosen)
    if "error" in answer:
        print(f"edgewise: {answer['error']}", file=sys.stderr)
        return 2
    print(answer["text"])
    return 0


def translate(arguments: Namespace, _fields: Fields) -> int:
    """``edgewise translate``: a line for each, blank where it is, or cannot be translated."""
    from edgewise.cli.predict import say_wrong
    from edgewise.inference.translations import Translations

    run = _loaded(arguments.folder, Translations, "translation, as transformer-multi30k")
    texts = arguments.texts
    if not texts:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # so that a line in Latin-1 is named
        texts = [line.rstrip("\n") for line in sys.stdin]
    answers = run.stream(text for text in texts if text.strip())
    wrong = []
    for number, text in enumerate(texts, 1):
        answer = next(answers) if text.strip() else {}
        print(answer.get("translation", ""))
        if "error" in answer:
            wrong.append(f"line {number}: {answer['error']}")
    return say_wrong(wrong)


def _loaded(folder: Path, kind: type[Predictor], what: str) -> Run:
    """A run whose answers are of this kind."""
    from edgewise.inference import load

    recipe = runs.load_recipe(RunFolder(folder))
    if not kind.serves(recipe):
        raise ArgumentError(
            str(folder),
            expected=f"a run of {what}",
            got=f"a run of {recipe.name}",
            remedy="name another run folder",
        )
    return load(folder)


def predict(arguments: Namespace, _fields: Fields) -> int:
    """``edgewise predict``."""
    from edgewise.cli.predict import predict

    return predict(arguments)


def verify(_arguments: Namespace, _fields: Fields) -> int:
    """``edgewise verify``."""
    from edgewise.cli.verify import run

    return run()


def doctor(_arguments: Namespace, _fields: Fields) -> int:
    """``edgewise doctor``."""
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
