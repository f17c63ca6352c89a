"""Patterns of one's own in texts: read back, and no module imported that nobody has named."""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.app.cli import main
from edgewise.graphs.user_patterns import IMPORT, PLUGINS, allow
from tests.errors import refused

SOURCE = """
from dataclasses import dataclass
from pathlib import Path
import torch
from edgewise import graphs

Path("imported").touch()


@dataclass(frozen=True, repr=False)
class Strided(graphs.Pattern):
    stride: int

    def _build(self, num_targets, num_sources):
        apart = torch.arange(num_targets)[:, None] - torch.arange(num_sources)
        return graphs.from_dense(apart % self.stride == 0)


both = graphs.window(1) | graphs.hubs([0])


def called():
    Path("called").touch()
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mypatterns.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    monkeypatch.delitem(sys.modules, "mypatterns", raising=False)
    monkeypatch.setenv(IMPORT, "")


def test_a_text_alone_imports_nothing() -> None:
    with refused("graph", expected="imported", got="mypatterns:Strided", remedy=IMPORT):
        graphs.parse("mypatterns:Strided(2)")
    assert not Path("imported").exists()


def test_a_module_that_was_named_is_imported_without_a_change_of_the_import_path() -> None:
    path = list(sys.path)
    Path("safetensors.py").write_text("raise SystemExit")
    allow("mypatterns:Strided(2)")
    assert repr(graphs.parse("mypatterns:Strided(2)")) == "mypatterns:Strided(2)"
    assert sys.path == path


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ("edgewise.graphs:complete()", True),
        ("edgewise.graphs:nothing()", False),
        ("edgewise:interop()", False),
        ("os:system('true')", False),
    ],
)
def test_imported_modules_give_only_patterns_and_import_nothing(text: str, is_read: bool) -> None:
    path, modules = list(sys.path), set(sys.modules)
    if is_read:
        assert graphs.parse(text) == graphs.complete()
    else:
        with pytest.raises(ArgumentError, match="Pattern object or class"):
            graphs.parse(text)
    assert sys.path == path
    assert set(sys.modules) == modules


def test_patterns_that_the_program_has_imported_are_read() -> None:
    allow("mypatterns:Strided(2)")
    pattern = graphs.parse("mypatterns:Strided(2)")
    os.environ[IMPORT] = ""
    assert graphs.parse("mypatterns:Strided(2)") == pattern


def test_modules_of_installed_plugins_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("mine", "mypatterns:RECIPES", PLUGINS)
    monkeypatch.setattr("edgewise.graphs.user_patterns.metadata.entry_points", lambda **_: [entry])
    assert repr(graphs.parse("mypatterns:Strided(2)")) == "mypatterns:Strided(2)"


def test_a_module_of_the_import_path_comes_before_one_of_the_current_folder() -> None:
    Path("colorsys.py").write_text(SOURCE)
    allow("colorsys:Strided(2)")
    sys.modules.pop("colorsys", None)
    with refused("graph", expected="in colorsys", got="nothing of this name", remedy="correct"):
        graphs.parse("colorsys:Strided(2)")


def test_a_package_of_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mypackage").mkdir()
    Path("mypackage/inner.py").write_text(SOURCE)
    allow("mypackage.inner:Strided(2)")
    assert repr(graphs.parse("mypackage.inner:Strided(2)")) == "mypackage.inner:Strided(2)"
    for name in ("mypackage", "mypackage.inner"):
        monkeypatch.delitem(sys.modules, name)


def test_what_was_named_is_read_back() -> None:
    allow("mypatterns:Strided(2)")
    pattern = graphs.parse("mypatterns:Strided(2) | window(1)")
    assert repr(pattern) == "(mypatterns:Strided(2) | window(1))"
    assert graphs.parse(repr(pattern)) == pattern
    reads = pattern.bind(5).dense()
    apart = (torch.arange(5)[:, None] - torch.arange(5)).abs()
    assert torch.equal(reads, (apart % 2 == 0) | (apart <= 1))
    assert graphs.parse("mypatterns:both") == graphs.window(1) | graphs.hubs([0])


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("mypatterns:called()", "called of type function"),
        ("mypatterns:Path('x')", "Path of type "),
        ("mypatterns:missing(1)", "nothing of this name"),
        ("os:system('touch called')", "system of type builtin_function_or_method"),
        ("mypatterns:Strided", "not a pattern"),
        ("mypatterns:Strided('a', 'b')", "positional arguments"),
        ("nosuchmodule:x", "ModuleNotFoundError"),
    ],
)
def test_nothing_but_patterns_is_called(text: str, got: str) -> None:
    allow("mypatterns:Strided nosuchmodule:x")
    with refused("graph", expected="attern" if "nosuch" not in text else "", got=got, remedy=""):
        graphs.parse(text)
    assert not Path("called").exists()


def test_the_command_line_takes_it_and_the_run_is_tested_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lightning")
    assert main(["show", "mypatterns:Strided(3)", "--nodes", "4"]) == 0
    assert "■ · · ■" in capsys.readouterr().out
    tiny = ["--model.width=8", "--model.heads=1", "--data.count=64", "--data.tested=32"]
    tiny += ["--trainer.epochs=1", "--trainer.accelerator=cpu", "--out", "run"]
    words = ["train", "digit-rows", "--model.graph", "mypatterns:Strided(3)"]
    assert main([*words, *tiny]) == 0
    assert '"mypatterns:Strided(3)"' in Path("run/recipe.json").read_text()
    monkeypatch.setenv(IMPORT, "")
    monkeypatch.delitem(sys.modules, "mypatterns")
    capsys.readouterr()
    assert main(["test", "run"]) == 2
    assert f"set {IMPORT}=mypatterns" in capsys.readouterr().err
    monkeypatch.setenv(IMPORT, "mypatterns")
    assert main(["test", "run"]) == 0
