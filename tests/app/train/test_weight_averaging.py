"""The moving average of the weights: what it is, and that training goes on with the weights."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("lightning", reason="Lightning is not installed")

from edgewise.app import runs
from edgewise.app.kinds import find
from edgewise.app.train import Regression, RunFolder, TrainerSettings, TrainingModule
from edgewise.app.train.callbacks import LastAverage, MovingAverage
from tests.errors import refused


def test_the_average_by_its_formula() -> None:
    model = torch.nn.BatchNorm1d(1)
    average, module = MovingAverage(0.75), TrainingModule(model, Regression())
    average.setup(None, module, "fit")
    values, expected = [4.0, 8.0, 3.0, 1.0, 5.0, 9.0], None
    for step, value in enumerate(values, 1):
        torch.nn.init.constant_(model.weight, value)
        model.num_batches_tracked.fill_(step)
        average.on_train_batch_end(SimpleNamespace(global_step=step), module, None, None, 0)
        share = max(1 / step, 0.25)
        expected = value if expected is None else expected + share * (value - expected)
    average.on_validation_epoch_start(None, module)
    assert float(model.weight.detach()) == pytest.approx(expected)
    assert int(model.num_batches_tracked) == 6, "what is counted is not averaged"
    average.on_validation_epoch_end(None, module)
    assert float(model.weight.detach()) == pytest.approx(expected), "until it may have been kept"
    average.on_validation_end(None, module)
    assert float(model.weight.detach()) == values[-1]


@pytest.mark.slow
def test_the_average_is_what_is_kept_and_training_does_not_notice(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    small = {"trainer.epochs": 2, "model.depth": 1, "model.width": 8, "model.heads": 2}
    recipe = runs.with_values(find("digits"), small)
    folders = [tmp_path / "plain", tmp_path / "average"]
    for folder, decay in zip(folders, (0.0, 0.9), strict=True):
        runs.train(runs.with_values(recipe, {"trainer.ema_decay": decay}), folder)
    logs = [RunFolder(folder).read_log() for folder in folders]
    assert [row["train/loss"] for row in logs[0]] == [row["train/loss"] for row in logs[1]]
    assert [row["val/loss"] for row in logs[0]] != [row["val/loss"] for row in logs[1]]


def test_the_mean_of_the_last_epochs() -> None:
    model = torch.nn.BatchNorm1d(1)
    average, module = LastAverage(2), TrainingModule(model, Regression())
    for value, mean in ((4.0, 4.0), (8.0, 6.0), (3.0, 5.5)):
        torch.nn.init.constant_(model.weight, value)
        model.num_batches_tracked.fill_(int(value))
        average.on_validation_start(None, module)
        assert float(model.weight.detach()) == mean
        assert int(model.num_batches_tracked) == value, "what is counted is not averaged"
        average.on_validation_end(None, module)
        assert float(model.weight.detach()) == value
    other = LastAverage(2)
    other.load_state_dict(average.state_dict())
    assert [float(one["weight"]) for one in other.last] == [8.0, 3.0]


def test_only_one_average() -> None:
    for fields in ({"average_last_epochs": -1}, {"average_last_epochs": 3, "ema_decay": 0.9}):
        with refused("trainer.average_last_epochs", expected="at least 0", got="", remedy="to 0"):
            TrainerSettings(**fields)


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_a_decay_is_from_zero_to_below_one(decay: float) -> None:
    with refused("trainer.ema_decay", expected="below 1", got=repr(decay), remedy="0.99"):
        TrainerSettings(ema_decay=decay)
