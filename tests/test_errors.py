"""What errors say."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

import edgewise
from edgewise._utils.errors import (
    ArgumentError,
    MissingExtraError,
    how_to_install,
    in_one_line,
    require,
    unknown_name,
)
from edgewise.app.cli import main


def test_a_name_in_other_letters_is_found_and_said_first() -> None:
    error = unknown_name("data.column", "smiles", ["SMILES", "name", "miles"])
    assert error.remedy == "did you mean 'SMILES'?"
    assert error.expected == "one of SMILES, miles, name"
    assert str(error).endswith("did you mean 'SMILES'?")
    assert unknown_name("recipe", "SST2", ["digits", "sst2"]).remedy == "did you mean 'sst2'?"
    assert unknown_name("graph", "Windw", ["window"]).expected == "window"


def test_a_name_that_is_like_none() -> None:
    many = unknown_name("layer", "zzz", [f"{number:02}" for number in range(80)])
    assert many.expected.endswith("58, 59 or 20 more")
    error = unknown_name("graph", "zzz", ["window", "causal"])
    assert error.expected == "one of causal, window"
    assert str(error).endswith("Remedy: choose one of the expected names.")


def test_a_required_package_is_given() -> None:
    assert require("torch", extra="all", purpose="this test") is torch


def test_a_required_package_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)  # as where it is not installed
    with pytest.raises(MissingExtraError) as caught:
        require("rdkit", extra="chem", purpose="reading molecules")
    assert str(caught.value) == (
        "reading molecules needs the package `rdkit`, which is not installed. "
        f"Remedy: {how_to_install('chem')}."
    )
    assert isinstance(caught.value, ImportError)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'edgewise[chem]'"),
        (
            {"url": "file:///home/me/my%20edgewise", "dir_info": {"editable": True}},
            "pip install -e '/home/me/my edgewise[chem]'",
        ),
        (
            {"url": "file:///home/me/edgewise", "dir_info": {}},
            "pip install '/home/me/edgewise[chem]'",
        ),
        (
            {"url": "https://example.org/edgewise.git", "vcs_info": {"vcs": "git"}},
            "pip install 'edgewise[chem] @ git+https://example.org/edgewise.git'",
        ),
        (
            {"url": "file:///home/me/edgewise.whl", "archive_info": {}},
            "pip install 'edgewise[chem] @ file:///home/me/edgewise.whl'",
        ),
    ],
)
def test_the_remedy_is_of_where_this_copy_came_from(
    origin: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(metadata, "distribution", lambda _name: Installed())
    assert how_to_install("chem") == command


def test_the_remedy_where_nothing_was_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert how_to_install("chem") == 'pip install -e ".[chem]" in a clone of Edgewise'


def test_of_many_names_the_nearest_is_said_and_the_others_are_counted() -> None:
    names = [f"model.field_{i}" for i in range(40)] + ["model.heads"]
    error = unknown_name("field", "model.head", names)
    assert error.expected == "model.heads or one of 40 other names"
    assert "did you mean 'model.heads'" in str(error)


def test_a_missing_package_is_refused_in_one_place() -> None:
    root = Path(edgewise.__file__).parent
    assert [p.name for p in root.rglob("*.py") if "raise MissingExtraError" in p.read_text()] == [
        "errors.py"
    ]


@pytest.mark.parametrize("name", ["argument", "expected", "got", "remedy"])
def test_a_long_text_of_an_error_is_cut_in_the_middle(name: str) -> None:
    texts = {"argument": "a", "expected": "b", "got": "c", "remedy": "d"}
    error = ArgumentError(**texts | {name: "x" * 700_000 + " in row 4"})
    assert len(str(error)) < 1500
    assert "xxx … xxx" in str(error)
    assert "in row 4" in str(error)
    assert ArgumentError(**texts | {name: "z" * 900}).args[0].count("z") == 900


def test_a_long_word_on_the_command_line_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["x" * 9000], ["heads", "run", "--batches", "x" * 9000]):
        with pytest.raises(SystemExit):
            main(words)
        assert len(capsys.readouterr().err) < 2500


def test_a_long_unexpected_error_is_cut() -> None:
    assert len(in_one_line(RuntimeError("x" * 700_000))) < 1500
    assert len(in_one_line(OSError("x" * 700_000))) < 1500
