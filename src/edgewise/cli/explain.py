"""``edgewise explain``: write a page of the attention of a run on an input."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from edgewise.errors import ArgumentError
from edgewise.inference import load


def explain(arguments: Namespace) -> int:
    """Write a page for each input."""
    from edgewise.explain import explanation, write_page

    if arguments.out.suffix.lower() not in (".html", ".htm"):
        raise ArgumentError(
            "--out",
            expected="a file name that ends in .html",
            got=str(arguments.out),
            remedy=f"write {arguments.out.with_suffix('.html')}",
        )
    run = load(arguments.folder)
    predictor = run.predictor
    given = arguments.inputs
    inputs = list(predictor.from_words(given) if given else predictor.default_inputs())
    for number, value in enumerate(inputs, 1):
        found = explanation(run, value, layers=arguments.layers, heads=arguments.heads)
        print(found.answer)
        print(write_page(found, _numbered(arguments.out, number, len(inputs))))
    return 0


def _numbered(path: Path, number: int, count: int) -> Path:
    return path if count == 1 else path.with_stem(f"{path.stem}-{number}")
