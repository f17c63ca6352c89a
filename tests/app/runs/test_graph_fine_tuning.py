"""A graph model that is trained on from another run: its trunk is that run's, its head is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from edgewise.app.kinds import find
from edgewise.app.runs import train, with_values
from edgewise.app.train import Recipe, RunFolder
from tests.errors import refused

pytest.importorskip("rdkit")
SMILES = ("CCO", "c1ccccc1O", "CC(=O)NC", "C#N", "N", "O=C(O)c1ccc(Cl)cc1", "CCCCCCCCCC")
SIZES = {"model.width": 8, "model.depth": 1, "model.heads": 2, "trainer.epochs": 1}


def of_table(folder: Path, target: str, **values: Any) -> Recipe:
    table = folder / "mine.csv"
    rows = [f"{text},{len(text)},{text.count('C')}" for text in SMILES]
    table.write_text("\n".join(["smiles,length,carbons", *rows]))
    data = {"data.path": str(table), "data.target": target, "data.val": 0.4}
    return with_values(find("gps-esol"), SIZES | data | values)


def carbons(folder: Path) -> Recipe:
    return of_table(folder, "carbons")


def length(folder: Path, **values: Any) -> Recipe:
    return of_table(folder, "length", **values)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(RunFolder(folder).weights)


def test_the_trunk_is_that_of_the_run_and_the_head_is_not(tmp_path: Path) -> None:
    train(carbons(tmp_path), tmp_path / "before")
    start = {"from": str(tmp_path / "before")}
    still = {"optimizer.lr": 0.0, "trainer.ema_decay": 0.0}
    train(length(tmp_path, **start, **still), tmp_path / "after")
    train(length(tmp_path, **still), tmp_path / "scratch")
    before, after, scratch = (weights(tmp_path / n) for n in ("before", "after", "scratch"))
    heads = [name for name in before if name.startswith("model.head.")]
    # The statistics of norms are those of the new data.
    learned = [
        name
        for name in before
        if name.startswith("model.")
        and name not in heads
        and not name.endswith(("running_mean", "running_var", "num_batches_tracked"))
    ]
    assert len(learned) > 10
    for name in learned:
        assert torch.equal(after[name], before[name]), name
    assert not torch.equal(after["model.embed.weight"], scratch["model.embed.weight"])
    for name in heads:
        assert torch.equal(after[name], scratch[name]), name


@pytest.mark.slow
def test_a_run_with_a_forest_gives_its_network(tmp_path: Path) -> None:
    rows = [f"{text},{'long' if len(text) > 4 else 'short'}" for text in 3 * SMILES]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,size", *rows]))
    data = {"data.path": str(tmp_path / "mine.csv"), "data.descriptors": False, "data.val": 0.4}
    recipe = with_values(find("molecules"), SIZES | data)
    train(recipe, tmp_path / "before")
    start = {"from": str(tmp_path / "before"), "optimizer.lr": 0.0, "trainer.ema_decay": 0.0}
    train(with_values(recipe, start), tmp_path / "after")
    before, after = weights(tmp_path / "before"), weights(tmp_path / "after")
    shared = [name for name in after if not name.startswith("head.") and "running" not in name]
    assert len(shared) > 10
    for name in shared:
        assert torch.equal(after[name], before[f"network.{name}"]), name


@pytest.mark.slow
def test_the_head_may_be_trained_first(tmp_path: Path) -> None:
    train(carbons(tmp_path), tmp_path / "before")
    start = {
        "from": str(tmp_path / "before"),
        "trainer.ema_decay": 0.0,
        "trainer.freeze_backbone_epochs": 1,
    }
    train(length(tmp_path, **start), tmp_path / "after")
    before, after = weights(tmp_path / "before"), weights(tmp_path / "after")
    assert torch.equal(after["model.embed.weight"], before["model.embed.weight"])
    assert not torch.equal(after["model.head.0.weight"], before["model.head.0.weight"])


def test_what_does_not_carry_over_is_refused(tmp_path: Path) -> None:
    train(carbons(tmp_path), tmp_path / "before")
    start = {"from": str(tmp_path / "before")}
    wider = length(tmp_path, **start, **{"model.width": 16})
    with refused(
        "--from",
        expected="gps-esol with the model gps",
        got="model.width 16",
        remedy="--model.width 8",
    ):
        train(wider, tmp_path / "wider")
    norm = length(tmp_path, **start, **{"model.position": "random_walk"})
    with refused("--from", expected="gps", got="weights that differ: ", remedy="same number"):
        train(norm, tmp_path / "norm")
    other = length(tmp_path, **start, **{"model.heads": 4})
    with refused("model.heads", expected="2", got="4", remedy="--model.heads 2"):
        train(other, tmp_path / "heads")
    gat = with_values(find("gat-cora"), {"trainer.freeze_backbone_epochs": 1})
    with refused(
        "trainer.freeze_backbone_epochs", expected="a separate head", got="Graph", remedy="0"
    ):
        gat.trainer.check(gat.task.metrics(), gat.model(4, 2))
