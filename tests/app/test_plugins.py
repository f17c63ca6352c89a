"""Recipes of installed packages: found when needed, named when broken or missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from edgewise._utils.errors import ArgumentError
from edgewise.app.cli.parser import parse
from edgewise.app.kinds import DATA, RECIPES, find
from edgewise.app.runs import fields_of, from_record, predictor_of, to_record
from edgewise.app.runs.baseline_results import baselines_for
from edgewise.app.runs.field_docs import field_meanings

PAGE = Path(__file__).parents[2] / "docs/howto" / "own_recipes.md"
TINY = ["--trainer.epochs=1", "--trainer.accelerator=cpu"]


def package(folder: Path, name: str, code: str) -> None:
    """Install a package of one module into a folder of the import path."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[edgewise.kinds]\n{name} = {name}\n")


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def edgewise(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "edgewise", *words)


@pytest.mark.slow
def test_the_package_of_the_page_trains_and_its_run_answers(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    found = re.findall(r"```(\w*)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (_, code), (_, entry), (_, commands) = found
    package(tmp_path, "my_recipes", code)
    assert entry.splitlines()[1] == 'my_recipes = "my_recipes"'
    for line in commands.splitlines():
        program, *words = line.split()
        assert program == "edgewise"
        done = edgewise(tmp_path, *words, *(TINY if words[0] == "train" else []))
        assert done.returncode == 0, done.stderr
    listed = edgewise(tmp_path, "list", "recipes").stdout
    assert re.search(r"^  small-digits +Small ViT on digits$", listed, re.MULTILINE)
    load = "import edgewise; print(edgewise.load('runs/small').recipe.name)"
    assert run(tmp_path, "-c", load).stdout == "small-digits\n"


@pytest.mark.slow
def test_a_broken_package_is_named_and_the_other_recipes_work(tmp_path: Path) -> None:
    package(tmp_path, "broken_recipes", "raise ZeroDivisionError('of theirs')")
    done = edgewise(tmp_path, "list", "recipes")
    assert done.returncode == 0
    assert "digits" in done.stdout
    assert done.stderr.startswith("edgewise: warning: the kind of the package broken_recipes")
    assert "ZeroDivisionError: of theirs" in done.stderr
    assert done.stderr.count("\n") == 1
    done = edgewise(tmp_path, "show", "digits")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["train", "digits", "--help"], ["train", "--help"]])
def test_packages_are_imported_only_if_needed(words: list[str], tmp_path: Path) -> None:
    package(
        tmp_path,
        "noisy_recipes",
        "from edgewise.app.kinds import Kind\nprint('imported')\nKIND = Kind('noisy')",
    )
    done = edgewise(tmp_path, *words)
    assert done.returncode == 0
    assert "imported" not in done.stdout
    assert "imported" in edgewise(tmp_path, "list", "recipes").stdout


def test_recipes_of_edgewise_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AssertionError("the packages are imported")

    monkeypatch.setattr(import_module("edgewise.app.kinds"), "plugins", fail)
    assert baselines_for(find("digits")).name == "images"
    assert predictor_of(find("digits")).__name__ == "ImageClasses"


@pytest.mark.slow
def test_own_names_have_precedence(tmp_path: Path) -> None:
    package(
        tmp_path,
        "shadow_recipes",
        "from edgewise.app.kinds import Kind\n"
        "KIND = Kind('x', data={'digits': int, 'shadow': int})",
    )
    code = (
        "from edgewise.app.kinds import DATA; "
        "print(DATA['digits'].__name__, DATA['shadow'].__name__)"
    )
    assert run(tmp_path, "-c", code).stdout == "Digits int\n"


def test_a_run_without_its_package_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads(json.dumps(to_record(find("digit-rows"))))
    assert record["packages"] == ["edgewise-examples"]
    assert to_record(from_record(record)) == record
    assert "packages" not in to_record(find("digits"))
    monkeypatch.setattr(import_module("edgewise.app.kinds"), "_loaded", [])
    assert "digit_rows" not in DATA
    with pytest.raises(ArgumentError, match="install edgewise-examples"):
        from_record(record)
    del record["packages"]  # a run of an earlier version
    with pytest.raises(ArgumentError, match="for example the folder examples of Edgewise"):
        from_record(record)


def test_options_of_a_package_reach_its_predictor() -> None:
    arguments = parse(["predict", "runs/x", "--sentences", "2", "text", "--top=3"])
    assert (arguments.inputs, arguments.top) == (["text"], "3")
    assert arguments.more_options == {"sentences": "2"}
    arguments = parse(["predict", "runs/x", "--", "--sentences"])
    assert (arguments.inputs, arguments.more_options) == (["--sentences"], {})


@pytest.mark.parametrize("name", RECIPES)
def test_every_field_has_a_meaning(name: str) -> None:
    for field, about in fields_of(RECIPES[name]).items():
        assert len(about.meaning) > 3, field
        assert not about.meaning.startswith("see "), (field, about.meaning)


def test_a_reference_is_replaced_by_its_meaning() -> None:
    found = field_meanings(DATA["tu"])
    assert found["folds"] == field_meanings(sys.modules[DATA["tu"].__module__].Folds)["folds"]
