"""What the documents say is so: what is generated is fresh, code runs, links lead somewhere."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

from edgewise import graphs

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
DRY_RUN = runpy.run_path(str(ROOT / "examples" / "dry_run.py"))


@pytest.mark.parametrize("name", DRY_RUN["ARCHITECTURES"])
def test_every_architecture_of_the_dry_run_computes(name: str) -> None:
    torch.manual_seed(0)
    out = DRY_RUN["ARCHITECTURES"][name]()
    assert out.isfinite().all()
    assert out.std() > 0


def test_the_table_of_architectures_is_fresh() -> None:
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_primitive_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    scope: dict[str, object] = {}
    exec(code, scope)
    for name in ("sentence", "decoder", "longformer", "weighted"):
        assert scope[name].shape == (1000, 8, 16)


def test_the_worked_examples_of_contributing_run(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    model, pattern, _ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    example = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)
    exec(model, example.__dict__)
    exec(pattern, example.__dict__)
    out = example.graphsage(5, 3)(torch.randn(4, 5), graphs.window(1))
    assert out.shape == (4, 3)
    reads = [[j <= i and (i - j) % 2 == 0 for j in range(5)] for i in range(5)]
    assert example.Strided(2).bind(5).dense().tolist() == reads
