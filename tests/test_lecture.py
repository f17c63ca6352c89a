"""Every link of docs/lecture.md leads to the lines and the test that it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "lecture.md"
LINK = re.compile(r"\[`(\w+)`\]\(([^)]+)\)")
ROWS = [
    line.strip("|").split(" | ")
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and "---" not in line and "in the code" not in line
]


def names(path: Path) -> set[str]:
    """Functions and classes of a file, at its top."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, kinds)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:60])
def test_a_formula_has_its_lines_and_its_test(row: list[str]) -> None:
    assert len(row) == 3, "formula, code, test"
    _, code, test = row
    for cell, folders in ((code, ("src", "examples")), (test, ("tests",))):
        links = LINK.findall(cell)
        assert links, cell
        for name, target in links:
            path = (PAGE.parent / target).resolve()
            assert path.is_file(), target
            assert path.relative_to(ROOT).parts[0] in folders
            assert name in names(path), f"{name} is not in {target}"
            if folders == ("tests",):
                assert name.startswith("test_")


def test_every_part_of_the_lectures_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    parts = ["Attention", "Energy functions", "Heads", "Residual", "Where a token is", "Masks"]
    parts += ["Graph networks", "in the language of graphs", "Multi-hop", "Sparse patterns"]
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    for part in parts:
        assert any(part in heading for heading in headings), part
    assert len(ROWS) > 50
