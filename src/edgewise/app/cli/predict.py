"""Command ``edgewise predict``: print the predictions of a run or write them to a file."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgewise._utils.arguments import check_range
from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError, printable_line
from edgewise.app.cli.names import OPTIONS
from edgewise.app.cli.output import say, table, warn
from edgewise.app.cli.progress import with_progress
from edgewise.app.cli.saving import save_figure
from edgewise.app.explain.reasons import add_reasons
from edgewise.app.kinds import RECIPES
from edgewise.app.predict.rows import check_form, flat, write_answers
from edgewise.app.runs.hybrid import parts_note
from edgewise.app.runs.predictors import all_predictors, predictor_of
from edgewise.app.runs.run import Run, load
from edgewise.app.train.folder import RunFolder, figure_format
from edgewise.app.train.recipe import Recipe

MAX_CELL = 60
"""Maximum number of characters of a table cell on the screen; files contain the whole text."""


def options_of(recipe: Recipe) -> dict[str, str]:
    """Return the options of ``predict`` for runs of a recipe: their help texts by name."""
    kind = predictor_of(recipe)
    return {
        name: OPTIONS.get(name, f"option of {kind.__name__}, {parameter.annotation}")
        for name, parameter in kind.options().items()
    }


def options_by_recipe() -> str:
    """Return a help text: each set of options, with the recipes whose runs accept them."""
    served: dict[str, list[str]] = {}
    for kind in all_predictors():
        options = " ".join(f"--{name.replace('_', '-')}" for name in kind.options()) or "none"
        names = [name for name, recipe in RECIPES.items() if kind.serves(recipe)]
        served.setdefault(options, []).extend(names)
    lines = [(f"  {options}", f"    {', '.join(names)}") for options, names in served.items()]
    return "\n".join(line for pair in lines for line in pair)


@dataclass
class _Notes:
    """Lines that are printed after the predictions: on options, invalid inputs and ``--why``."""

    options: Sequence[str]
    errors: list[str] = field(default_factory=list)
    meanings: set[str] = field(default_factory=set)


def predict(arguments: Namespace) -> int:
    """Run ``edgewise predict``: print or write predictions; return 1 if an input is invalid."""
    if arguments.input is not None and arguments.inputs:
        raise ArgumentError(
            "INPUT",
            expected="either inputs, or a file of inputs with --input",
            got="both",
            remedy="omit the inputs or --input",
        )
    if arguments.out is not None:
        check_form(arguments.out)
        _check_replaces_no_input(arguments.out, arguments.input)
    if arguments.draw is not None:
        figure_format(arguments.draw)
    run = load(arguments.folder)
    if arguments.draw is not None:
        run.predictor.check_draws()
    chosen = {name: getattr(arguments, name) for name in OPTIONS}
    options = {name: value for name, value in chosen.items() if value is not None}
    options |= arguments.more_options
    inputs = arguments.input
    if arguments.inputs:
        inputs = list(run.predictor.from_words(arguments.inputs))
    notes = _Notes(run.predictor.notes(run.predictor.check_options(options)))
    answers: Iterable[Any] = run.stream(inputs, batch_size=arguments.batch_size, **options)
    if arguments.why is not None:
        answers = _with_reasons(run, inputs, answers, arguments.why, notes)
    answers = _collect_errors(answers, notes.errors)
    if arguments.draw is not None or arguments.out is None:
        answers = list(answers)
    if arguments.out is not None:
        write_answers(arguments.out, answers, quote_formulas=arguments.quote_formulas)
    else:
        _print(answers, run.predictor.text_key)
    for line in _closing_lines(run, notes, arguments.out):
        say(line)
    if arguments.draw is not None:
        figure = run.draw([answer for answer in answers if "error" not in answer])
        save_figure(arguments.draw, figure)
    for line in (*notes.options, *notes.errors):
        warn(line)
    return 1 if notes.errors else 0


def _closing_lines(run: Run, notes: _Notes, out: Path | None) -> Iterator[str]:
    """Yield the meaning of reasons on the screen, the parts of a hybrid model, and the file."""
    if out is None:
        yield from (f"why: {meaning}" for meaning in sorted(notes.meanings))
    parts = parts_note(RunFolder(run.path))
    if parts:
        yield parts
    if out is not None:
        yield str(out)


def _with_reasons(
    run: Any, inputs: Any, answers: Iterable[Any], count: int, notes: _Notes
) -> Iterator[Any]:
    """Yield all predictions; those for valid inputs with the ``count`` strongest reasons."""
    check_range("--why", count, "choose for example --why 3", least=1)
    values: Iterable[Any] = inputs or run.predictor.default_inputs()
    if isinstance(inputs, Path):
        values = (value for _, _, value in run.predictor.from_file(inputs))
    for answer, value in zip(answers, values, strict=True):
        if "error" not in answer:
            try:
                notes.meanings |= add_reasons(run, answer, value, count)
            except ArgumentError as error:
                if error.argument != "input":
                    raise
                notes.errors.append(str(error))  # The prediction has no reasons.
        yield answer


def _check_replaces_no_input(out: Path, inputs: Path | None) -> None:
    if inputs is None or not (out.exists() and inputs.exists()):
        return
    if out.samefile(inputs) or inputs.resolve() in out.resolve().parents:
        raise ArgumentError(
            "--out",
            expected="a file that is not one of the inputs",
            got=str(out),
            remedy="choose another name for the output file",
        )


def _collect_errors(answers: Iterable[Any], errors: list[str]) -> Iterable[Any]:
    """Yield all predictions, and append the error messages for invalid inputs to ``errors``."""
    for answer in with_progress(answers, "answered"):
        if "error" in answer:
            errors.append(answer["error"])
        yield answer


def _print(answers: Iterable[Any], text_key: str) -> None:
    good = [answer for answer in answers if "error" not in answer]
    if text_key:
        for answer in good:
            say(answer[text_key])
            for row in flat({"why": answer.get("why", [])}, _effect):
                if row:
                    say(f"  {row['part']}: {row['why']}")
        return
    rows = [row for answer in good for row in flat(answer, _effect)]
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[_shown(name, row.get(name, "")) for name in names] for row in rows]
        say(table([names, *cells], left=len(names)))


def _effect(value: float) -> str:
    return rounded(value, "+")


def _shown(name: str, value: Any) -> str:
    if isinstance(value, float):
        return rounded(value)
    text = printable_line(" ".join(str(value).split()))
    is_short = name == "why" or len(text) <= MAX_CELL  # All reasons that were asked for are shown.
    return text if is_short else f"{text[: MAX_CELL - 1]}…"
