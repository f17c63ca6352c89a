"""Pages of the course in docs/lectures: cells run in order, and the claims asserted there hold."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.places import needs

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "lectures"
PAGES = sorted(FOLDER.glob("[0-9][0-9]_*.md"))
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POLLS = {
    "Poll 1": ("03_sqrt_d.md", "abcd"),
    "Poll 2": ("10_encoder_decoder.md", "abcdefg"),
    "Poll 3": ("15_invariance.md", "123"),
    "Poll 4": ("19_hops.md", "abcd"),
}
"""Page of each poll, and its statements."""
LONG = {"04_heads", "06_parts", "07_norms", "08_depth", "12_rnn_cnn", "20_over_smoothing"}
LONG |= {"26_observations", "30_without"}
"""Pages that train for more than 5 s. `make site` runs them, and so does EDGEWISE_PAGES=all."""


def cells(page: str) -> list[str]:
    return CELL.findall(page)


def data_sets(page: str) -> list[str]:
    """Return the data sets that a page names after "Data." at the start of a paragraph."""
    named = re.search(r"^\*\*Data\.\*\* (.*?)$\n^$", page, re.MULTILINE | re.DOTALL)
    return re.findall(r"`(\w[\w-]*)/`", named[1]) if named else []


def long(path: Path) -> pytest.MarkDecorator:
    """Skip a long page unless all pages are asked for."""
    skipped = path.stem in LONG and os.environ.get("EDGEWISE_PAGES") != "all"
    return pytest.mark.skipif(skipped, reason="`make site` runs it; set EDGEWISE_PAGES=all")


def run(page: str) -> int:
    """Run the cells of a page in one scope; return the number of figures."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    scope: dict[str, Any] = {"__name__": "course"}
    try:
        for number, cell in enumerate(cells(page), 1):
            exec(compile(cell, f"cell {number}", "exec"), scope)
        return len(plt.get_fignums())
    finally:
        plt.close("all")


@pytest.mark.slow(
    *("03_sqrt_d", "05_scores", "09_positions", "11_context", "13_masks", "16_renumbered"),
    *("18_gnn_layer", "23_cost", "27_pruning", "28_structure", "29_trees"),
)
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[needs(*data_sets(path.read_text())), long(path)]) for path in PAGES],
    ids=lambda path: path.stem,
)
def test_a_page_runs_and_its_claims_hold(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = path.read_text(encoding="utf-8")
    for module in ("rdkit", "torch_geometric", "sklearn", "networkx", "lightning", "tokenizers"):
        if re.search(rf"^(import|from) {module}\b", page, re.MULTILINE):
            pytest.importorskip(module)
    assert run(page) > 0, "a page draws a figure"


def test_a_wrong_claim_fails() -> None:
    right = (
        "```{code-cell}\nimport matplotlib.pyplot as plt\nplt.figure()\nassert 1 + 1 == 2\n```\n"
    )
    assert run(right) == 1
    with pytest.raises(AssertionError):
        run(right.replace("== 2", "== 3"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_has_the_parts_that_a_reader_meets(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    for part in ("**Question.**", "**Observation.**", "**Try it.**", "**Further.**"):
        assert part in page, part
    assert any(re.search(r"^\s*assert ", cell, re.MULTILINE) for cell in cells(page))
    assert all(len(line) <= 100 for cell in cells(page) for line in cell.splitlines())


@pytest.mark.parametrize("poll", POLLS)
def test_a_poll_asks_before_it_answers(poll: str) -> None:
    name, statements = POLLS[poll]
    page = (FOLDER / name).read_text(encoding="utf-8")
    asked = page.index(f"## {poll}")
    answered = page.index(":::{dropdown}", asked)
    for statement in statements:
        assert f"- **{statement}.**" in page[asked:answered], statement
        assert f"- **{statement}.**" in page[answered:], statement


def test_the_index_names_every_page() -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((\d\d_\w+\.md)\)", index)
    assert sorted(set(linked)) == [path.name for path in PAGES]
    assert {path.stem for path in PAGES} >= LONG
