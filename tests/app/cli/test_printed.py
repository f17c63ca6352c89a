"""No file can send control sequences to a terminal: what is printed from it is escaped."""

from __future__ import annotations

import ast
import io
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import edgewise
from edgewise._utils.errors import MissingDataError, in_one_line, printable, printable_line
from edgewise.app.cli import process
from edgewise.app.cli.output import say, table, warn
from edgewise.app.cli.parser import build_parser
from edgewise.app.cli.predict import _print, _shown
from edgewise.app.files.files import unreadable
from tests.sources import nodes_of

TITLE = "\x1b]0;title\x07"
"""Escape sequence that changes the title of the window."""
HARM = (TITLE, "\x1b[2J", "\x9b31m", "a\rb", "\b\b", "\x7f", "\u202egpj", "\u2066", "\x00", "\x85")


def is_safe(text: str) -> bool:
    controls = {c for c in text if unicodedata.category(c) == "Cc"} - {"\n", "\t"}
    return not controls and not any("\u2028" <= c <= "\u202e" for c in text)


def test_all_control_characters_are_escaped_and_all_others_are_kept() -> None:
    for code in range(0x3000):
        text = printable(chr(code))
        assert is_safe(text)
        if unicodedata.category(chr(code)) not in ("Cc", "Cf", "Zl", "Zp"):
            assert text == chr(code)
    assert printable("a\r\nb\tc") == "a\nb\tc"
    assert printable("👩\u200d🔬 é 中") == "👩\u200d🔬 é 中"
    assert printable("\x1b\x9b\u202e") == r"\x1b\x9b\u202e"
    assert printable_line("a\n b\x85c\x1b") == r"a  b c\x1b"


@pytest.mark.parametrize("harm", HARM)
def test_labels_cells_columns_and_texts(harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    _print([{"input": f"x{harm}", f"label{harm}": f"y{harm}", "probability": 0.5}], "")
    _print([{"text": f"generated{harm}", "why": [{"part": f"part{harm}", "why": 0.5}]}], "text")
    say(Path(f"name{harm}.csv"))
    say(table([["a", f"b{harm}"], [f"c{harm}", "d"]]))
    warn(f"line{harm}")
    printed = capsys.readouterr()
    assert is_safe(printed.out)
    assert is_safe(printed.err)
    assert printed.err.count("\n") == 1
    assert _shown("why", "a  b\nc") == "a b c"


def test_a_cell_cannot_forge_a_row() -> None:
    lines = table([["name", "value"], ["a\nforged  1", "2"]]).split("\n")
    assert len(lines) == 3


@pytest.mark.parametrize("harm", HARM)
def test_errors_and_warnings(harm: str, capsys: pytest.CaptureFixture[str]) -> None:
    errors: list[Exception] = [
        unreadable(f"file{harm}", expected=f"a{harm}", got=f"b{harm}", remedy=f"c{harm}"),
        MissingDataError(f"file{harm}: no such file"),
        OSError(2, f"No such file{harm}", f"name{harm}"),
        RuntimeError(f"wrong{harm}"),
    ]
    for error in errors:
        assert is_safe(in_one_line(error))
        assert "\n" not in in_one_line(error)
        if isinstance(error, edgewise.EdgewiseError):
            assert is_safe(str(error)), "Python prints this at the end of a traceback"
    process._in_one_line(UserWarning(f"file{harm} is read as Latin-1"))
    assert is_safe(capsys.readouterr().err)


def test_help_and_errors_of_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    recipe: Any = SimpleNamespace(name=f"recipe{TITLE}")
    parser = build_parser()
    parser.description = f"a run of {recipe.name}"
    parser.print_help()
    with pytest.raises(SystemExit):
        parser.parse_args([f"--{TITLE}"])
    printed = capsys.readouterr()
    assert is_safe(printed.out)
    assert is_safe(printed.err)


def test_titles_of_the_progress_display() -> None:
    pytest.importorskip("lightning")
    from rich.console import Console

    from edgewise.app.train.callbacks import ProgressDisplay

    history: Any = SimpleNamespace(rows=[], settings=SimpleNamespace(epochs=3))
    display = ProgressDisplay(f"{TITLE}[bold]name[/bold]", history)
    display.console = Console(file=(stream := io.StringIO()))
    display._show(0)
    assert is_safe(stream.getvalue())
    assert "[bold]" in stream.getvalue(), "names are no markup"


def test_a_notebook_and_a_shell_show_runs() -> None:
    pytest.importorskip("lightning")
    from edgewise.app.runs import Run

    recipe: Any = SimpleNamespace(name=f"recipe{TITLE}")
    predictor: Any = SimpleNamespace(input="a text")
    model: Any = None
    assert is_safe(repr(Run(Path(f"runs/{TITLE}"), recipe, model, predictor)))


PRINTING = ("print", "sys.stdout.write", "sys.stderr.write")


def test_all_that_is_printed_is_escaped() -> None:
    """Only the modules that escape call ``print`` or write to a standard stream."""
    root = Path(edgewise.__file__).parent
    allowed = {"app/cli/output.py"}
    bad = []
    for path in sorted(root.rglob("*.py")):
        name = str(path.relative_to(root))
        for node in nodes_of(path):
            # Only the calls that may be one are written out, which takes long.
            function = node.func if isinstance(node, ast.Call) else None
            last = getattr(function, "id", getattr(function, "attr", ""))
            if function and last in ("print", "write") and ast.unparse(function) in PRINTING:
                bad += [] if name in allowed else [f"{name}:{function.lineno}"]
    assert not bad, "\n".join(bad)
