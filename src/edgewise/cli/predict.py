"""``edgewise predict``: answers of a run on the screen or in a file."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgewise.cli.table import table
from edgewise.errors import ArgumentError
from edgewise.inference.predictors import PREDICTORS
from edgewise.recipes import RECIPES

OPTIONS = {
    "back": "forecast from so many steps before the end, where the truth is known",
    "because": "with a recommended item or link, so many of those that speak for it",
    "top": "of the likeliest labels, words, items or friends, so many",
    "beams": "beginnings of a text that are kept while it is written",
    "tokens": "the most tokens that are written",
    "temperature": "below 1 surer, above 1 freer, 0 always the likeliest token",
    "top_k": "choose among the K likeliest tokens",
    "top_p": "choose among the fewest tokens whose probabilities reach P",
    "seed": "of what is chosen by chance: the same text again",
    "sentences": "of a summary",
}
"""What the options of :meth:`edgewise.inference.Predictor.answer` mean; each kind has some."""
WIDEST = 60
"""Characters of a cell on the screen; files have all of them."""


def options_by_recipe() -> str:
    """Which options the answers of each kind of run have, and the recipes of these kinds."""
    served: dict[str, list[str]] = {}
    for kind in PREDICTORS:
        options = " ".join(f"--{name.replace('_', '-')}" for name in kind.options()) or "none"
        names = [name for name, recipe in RECIPES.items() if kind.serves(recipe)]
        served.setdefault(options, []).extend(names)
    lines = [(f"  {options}", f"    {', '.join(names)}") for options, names in served.items()]
    return "\n".join(line for pair in lines for line in pair)


def predict(arguments: Namespace) -> int:
    """Answer; 1 where an input could not be answered, though the others were."""
    from edgewise.inference import load
    from edgewise.inference.rows import check_form, write_answers
    from edgewise.training import RunFolder

    if arguments.input is not None and arguments.inputs:
        raise ArgumentError(
            "INPUT",
            expected="inputs, or a file of them with --input",
            got="both",
            remedy="name one of them",
        )
    if arguments.out is not None:
        check_form(arguments.out)
        _check_other(arguments.out, arguments.input)
    run = load(arguments.folder)
    if arguments.draw is not None:
        run.predictor.check_draws()
    chosen = {name: getattr(arguments, name) for name in OPTIONS}
    options = {name: value for name, value in chosen.items() if value is not None}
    inputs = arguments.input
    if arguments.inputs:
        inputs = list(run.predictor.from_words(arguments.inputs))
    wrong: list[str] = []
    answers = _watched(run.stream(inputs, batch_size=arguments.batch_size, **options), wrong)
    if arguments.draw is not None or arguments.out is None:
        answers = list(answers)
    if arguments.out is not None:
        write_answers(arguments.out, answers)
        print(arguments.out)
    else:
        _print(answers, run.predictor.text_key)
    if arguments.draw is not None:
        figure = run.draw([answer for answer in answers if "error" not in answer])
        RunFolder(arguments.draw.parent).write_figure(arguments.draw.name, figure)
        print(arguments.draw)
    return say_wrong(wrong)


def say_wrong(wrong: list[str]) -> int:
    """Say what could not be answered; gives the exit code."""
    for line in wrong:
        print(f"edgewise: {line}", file=sys.stderr)
    return 1 if wrong else 0


def _check_other(out: Path, given: Path | None) -> None:
    """Refuse to put the answers in the place of what they answer."""
    if given is None or not (out.exists() and given.exists()):
        return
    if out.samefile(given) or given.resolve() in out.resolve().parents:
        raise ArgumentError(
            "--out",
            expected="another file than those of the inputs",
            got=str(out),
            remedy="choose another name",
        )


def _watched(answers: Iterable[Any], wrong: list[str]) -> Iterable[Any]:
    """The answers; what could not be answered goes to ``wrong``."""
    for answer in _with_progress(answers):
        if "error" in answer:
            wrong.append(answer["error"])
        yield answer


def _with_progress(answers: Iterable[Any]) -> Iterable[Any]:
    """The answers, counted on a terminal; a machine that only answers need not have rich."""
    if not sys.stderr.isatty() or find_spec("rich") is None:
        yield from answers
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), TextColumn("{task.completed}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("answered")
        for answer in answers:
            bar.advance(task)
            yield answer


def _print(answers: Iterable[Any], text_key: str) -> None:
    from edgewise.inference.rows import flat

    good = [answer for answer in answers if "error" not in answer]
    if text_key:
        for answer in good:
            print(answer[text_key])
        return
    rows = [row for answer in good for row in flat(answer)]
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[_shown(row.get(name, "")) for name in names] for row in rows]
        print(table([names, *cells], left=len(names)))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
