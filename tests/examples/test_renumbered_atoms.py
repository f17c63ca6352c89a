"""The script that renumbers atoms and turns drawings of molecules."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "scripts" / "renumbered_atoms.py"


def test_a_graph_network_and_a_transformer_answer_alike_for_all_numberings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rdkit")
    pytest.importorskip("matplotlib")
    smiles = ["CCO", "CC(=O)OC", "CCN(C)C", "c1ccccc1O", "CC(C)CO", "OCC(F)CN"]
    rows = [f"{one},{len(one) / 10}" for one in smiles]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,solubility", *rows]) + "\n")
    options = ["--smiles", "smiles", "--target", "solubility", "--epochs", "2"]
    plot = tmp_path / "figure.png"
    monkeypatch.setattr(
        sys,
        "argv",
        [str(SCRIPT), "--csv", str(tmp_path / "mine.csv"), *options, "--plot", str(plot)],
    )
    runpy.run_path(str(SCRIPT), run_name="__main__")
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    change = {row[0].strip("| "): float(row[-1].strip("| ")) for row in rows}
    assert len(change) == 5
    assert max(change.pop("GNN"), change.pop("Transformer")) < 1e-5
    assert min(change.values()) > 1e-4
    assert plot.stat().st_size > 1000
