"""What errors say."""

from __future__ import annotations

from edgewise.errors import unknown_name


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
