"""Runs of ZINC answer on SMILES, as the model does on the graphs of the data."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

pytest.importorskip("rdkit", reason="RDKit is not installed (the extra chem)")
pytest.importorskip("lightning")

import edgewise
from edgewise.app.cli import main
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules import zinc
from edgewise.app.runs import train, with_values
from tests.places import ROOT, needs

FAST = {"trainer.accelerator": "cpu", "trainer.epochs": 1, "trainer.save_every": 0}
FAST |= {"data.train_rows": 64, "model.depth": 2}


@pytest.mark.slow
@needs(zinc.NAME)
@pytest.mark.parametrize("name", ["gin-zinc", "laplacian-zinc", "gps-zinc"])
def test_answers_are_the_outputs_of_the_model_on_its_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = with_values(find(name), FAST)
    train(recipe, tmp_path / "run")
    batch = recipe.data.load().test.make(torch.arange(20))
    with (ROOT / zinc.NAME / "raw" / "test.csv").open() as file:
        rows = list(csv.DictReader(file))[:20]
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    run = edgewise.load(tmp_path / "run")
    with torch.no_grad():
        wanted = run.model(*batch.inputs, **batch.keywords)[:, 0]
    answers = run.predict([row["smiles"] for row in rows], batch_size=6)
    found = torch.tensor([answer["penalised_logp"] for answer in answers])
    torch.testing.assert_close(found.double(), wanted.double(), rtol=0, atol=2e-4)
    assert found.std() > 4e-3, "they differ"
    wrong, strange, good = run.predict(["C(C", "C[Si](C)C", {"smiles": "C"}])
    assert "which RDKit cannot read" in wrong["error"]
    assert "atom types of ZINC" in strange["error"]
    assert isinstance(good["penalised_logp"], float)
    (tmp_path / "new.csv").write_text("smiles,note\nCCO,a\nC[Si],b\n")
    capsys.readouterr()
    assert main(["predict", str(run.path), "--input", str(tmp_path / "new.csv")]) == 1
    out, err = capsys.readouterr()
    assert "penalised_logp" in out
    assert "line 3 of new.csv" in err
