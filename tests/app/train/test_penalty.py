"""What a model adds to the loss of its training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lightning")

from edgewise.app.train import OptimizerSettings, Regression, RunFolder, TrainerSettings, fit
from edgewise.layers import add_penalty, collect_penalties


class Pulled(nn.Module):
    """Its outputs are right whatever its weight is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        add_penalty(3 * self.weight.sum())
        return x + 0 * self.weight


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*many workers")  # Lightning's own
def test_a_penalty_is_trained_on_and_not_reported(tmp_path: Path) -> None:
    model = nn.Sequential(Pulled())
    ones = DataLoader(TensorDataset(torch.ones(4, 1), torch.ones(4, 1)), batch_size=4)
    metrics = fit(
        model,
        Regression(),
        {"train": ones, "val": ones, "test": ones},
        RunFolder(tmp_path),
        optimizer=OptimizerSettings(lr=0.1),
        trainer=TrainerSettings(epochs=1, accelerator="cpu", monitor="val/loss", mode="min"),
    )
    assert model[0].weight.item() == pytest.approx(0.9), "a step of Adam"
    assert metrics["test/loss"] == 0
    log = (tmp_path / "log.csv").read_text().splitlines()
    row = dict(zip(log[0].split(","), log[1].split(","), strict=True))
    assert float(row["train/loss"]) == float(row["val/loss"]) == 0


def test_penalties_are_collected_in_their_block_alone() -> None:
    model, x = Pulled(), torch.ones(2, 1)
    model(x)
    with collect_penalties() as outer:
        model(x)
        with collect_penalties() as inner:
            model(2 * x)
            model(x)
        model(x)
    model(x)
    assert (len(outer), len(inner)) == (2, 2)
    with pytest.raises(ZeroDivisionError), collect_penalties() as failed:
        _ = 1 / 0
    model(x)
    assert not failed
