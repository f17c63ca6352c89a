"""What errors say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import edgewise
from edgewise.errors import MissingExtraError, require, unknown_name


def test_a_name_in_other_letters_is_found_and_said_first() -> None:
    error = unknown_name("data.column", "smiles", ["SMILES", "name", "miles"])
    assert error.remedy == "did you mean 'SMILES'?"
    assert error.expected == "SMILES, or another of miles, name"
    assert str(error).endswith("did you mean 'SMILES'?")
    assert unknown_name("recipe", "SST2", ["digits", "sst2"]).remedy == "did you mean 'sst2'?"
    assert unknown_name("graph", "Windw", ["window"]).expected == "window"


def test_a_name_that_is_like_none() -> None:
    error = unknown_name("graph", "zzz", ["window", "causal"])
    assert error.expected == "one of causal, window"
    assert str(error).endswith("Remedy: choose one of them.")


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
        "Remedy: pip install 'edgewise[chem]'."
    )
    assert isinstance(caught.value, ImportError)


def test_a_missing_package_is_refused_in_one_place() -> None:
    root = Path(edgewise.__file__).parent
    assert [p.name for p in root.rglob("*.py") if "raise MissingExtraError" in p.read_text()] == [
        "errors.py"
    ]
