"""Command ``edgewise explain``: write HTML pages of a trained model's attention on inputs."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise._utils.errors import ArgumentError
from edgewise.app.cli.heads import layer_of
from edgewise.app.cli.output import say, warn
from edgewise.app.predict.predictor import Predictor
from edgewise.app.runs.run import load
from edgewise.explain.explanation import explanation
from edgewise.explain.page import write_page


def explain(arguments: Namespace) -> int:
    """Run ``edgewise explain``: write a page for each valid input; return 1 if one is invalid."""
    if arguments.out.suffix.lower() not in (".html", ".htm"):
        raise ArgumentError(
            "--out",
            expected="a file name that ends in .html",
            got=str(arguments.out),
            remedy=f"use for example --out {arguments.out.parent / 'attention.html'}",
        )
    layers = None if arguments.layers is None else list(map(layer_of, arguments.layers))
    run = load(arguments.folder)
    predictor = run.predictor
    inputs = _inputs(predictor, arguments.inputs)
    code = 0
    for number, value in enumerate(inputs, 1):
        try:
            predictor.prepare(predictor.input_of(value))
        except ArgumentError as error:
            warn(error)
            code = 1
            continue
        explained = explanation(run, value, layers=layers, heads=arguments.heads)
        say(explained.answer)
        say(write_page(explained, _numbered(arguments.out, number, len(inputs))))
    return code


def _inputs(predictor: Predictor, words: Sequence[str]) -> list[Any]:
    """Return the inputs on the command line, or the default inputs of the run."""
    if not words and type(predictor).default_inputs is Predictor.default_inputs:
        raise ArgumentError(
            "INPUT", expected=predictor.input, got="none", remedy=f"give {predictor.input}"
        )
    return list(predictor.from_words(words) if words else predictor.default_inputs())


def _numbered(path: Path, number: int, count: int) -> Path:
    return path if count == 1 else path.with_stem(f"{path.stem}-{number}")
