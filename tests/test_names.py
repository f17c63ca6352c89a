"""Names of arguments and variables: placeholders, such as ``found``, do not say what a value is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import edgewise
from tests.sources import nodes_of

PLACEHOLDERS = {
    *("found", "one", "own", "kept", "given", "known", "theirs", "each", "made", "named", "wanted"),
    *("before", "places", "place", "part", "parts", "whole", "many", "few", "these", "said"),
    "more",
}
ALLOWED = 1.0
"""Maximum number of placeholders per 1,000 lines; a format that has parts may call them so."""


def placeholders(path: Path) -> Iterator[str]:
    """Yield the file, line, function and names of each function that uses placeholders."""
    for function in nodes_of(path):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes = list(ast.walk(function))
            names = {
                n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            names |= {n.arg for n in nodes if isinstance(n, ast.arg)}
            for name in sorted(names & PLACEHOLDERS):
                yield f"{path}:{function.lineno} {function.name}: {name}"


def test_names_say_what_a_value_is() -> None:
    files = sorted(Path(edgewise.__file__).parent.rglob("*.py"))
    lines = sum(path.read_text().count("\n") for path in files)
    uses = [use for path in files for use in placeholders(path)]
    rate = 1000 * len(uses) / lines
    assert rate <= ALLOWED, f"{rate:.1f} per 1,000 lines:\n" + "\n".join(uses)


def test_a_placeholder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "def total(parts):\n    found = sum(parts)\n    return found\n"
    )
    uses = [use.rsplit(":", 2)[1:] for use in placeholders(tmp_path / "code.py")]
    assert uses == [["1 total", " found"], ["1 total", " parts"]]
