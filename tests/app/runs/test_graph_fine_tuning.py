"""A graph model that is trained on from another run: its trunk is that run's, its head is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from edgewise.app.files.checksums import SHA256
from edgewise.app.kinds import find
from edgewise.app.kinds.molecules import zinc
from edgewise.app.runs import train, with_values
from edgewise.app.train import Recipe, RunFolder
from tests.errors import refused
from tests.unlabelled import SMILES, write_molecules

pytest.importorskip("rdkit")
SIZES = {"model.width": 8, "model.depth": 1, "model.heads": 2, "trainer.epochs": 1}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_DATA", str(tmp_path))
    monkeypatch.delitem(SHA256, zinc.NAME)
    write_molecules(tmp_path)


def masked(**values: Any) -> Recipe:
    return with_values(find("masked-molecules"), SIZES | values)


def solubility(folder: Path, **values: Any) -> Recipe:
    table = folder / "mine.csv"
    rows = [f"{text},{len(text)}" for text in SMILES]
    table.write_text("\n".join(["smiles,y", *rows]))
    own = {"data.path": str(table), "data.target": "y", "data.val": 0.4}
    return with_values(find("gps-esol"), SIZES | own | values)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(RunFolder(folder).weights)


def test_the_trunk_is_that_of_the_run_and_the_head_is_not(tmp_path: Path) -> None:
    train(masked(), tmp_path / "before")
    start = {"from": str(tmp_path / "before")}
    still = {"optimizer.lr": 0.0, "trainer.ema_decay": 0.0}
    train(solubility(tmp_path, **start, **still), tmp_path / "after")
    train(solubility(tmp_path, **still), tmp_path / "scratch")
    before, after, scratch = (weights(tmp_path / n) for n in ("before", "after", "scratch"))
    learned = [name for name in before if not name.startswith("head.") and "running" not in name]
    learned = [name for name in learned if "num_batches" not in name]  # of norms: of each its own
    assert len(learned) > 10
    for name in learned:
        assert torch.equal(after[f"model.{name}"], before[name]), name
    assert not torch.equal(after["model.embed.weight"], scratch["model.embed.weight"])
    for name in after:
        if name.startswith("model.head."):
            assert torch.equal(after[name], scratch[name]), name


@pytest.mark.slow
def test_the_head_may_be_trained_first(tmp_path: Path) -> None:
    train(masked(), tmp_path / "before")
    start = {
        "from": str(tmp_path / "before"),
        "trainer.ema_decay": 0.0,
        "trainer.freeze_backbone_epochs": 1,
    }
    train(solubility(tmp_path, **start), tmp_path / "after")
    before, after = weights(tmp_path / "before"), weights(tmp_path / "after")
    assert torch.equal(after["model.embed.weight"], before["embed.weight"])
    assert not torch.equal(after["model.head.0.weight"], before["head.0.weight"])


def test_what_does_not_carry_over_is_refused(tmp_path: Path) -> None:
    train(masked(), tmp_path / "before")
    start = {"from": str(tmp_path / "before")}
    wider = solubility(tmp_path, **start, **{"model.width": 16})
    with refused(
        "--from",
        expected="masked-molecules with the model gps",
        got="model.width 16",
        remedy="--model.width 8",
    ):
        train(wider, tmp_path / "wider")
    norm = solubility(tmp_path, **start, **{"model.position": "random_walk"})
    with refused("--from", expected="gps", got="weights that differ: ", remedy="same number"):
        train(norm, tmp_path / "norm")
    other = solubility(tmp_path, **start, **{"model.heads": 4})
    with refused("model.heads", expected="2", got="4", remedy="--model.heads 2"):
        train(other, tmp_path / "heads")
    gat = with_values(find("gat-cora"), {"trainer.freeze_backbone_epochs": 1})
    with refused(
        "trainer.freeze_backbone_epochs", expected="a separate head", got="Graph", remedy="0"
    ):
        gat.trainer.check(gat.task.metrics(), gat.model(4, 2))
