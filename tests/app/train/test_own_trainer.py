"""``TrainingModule`` in a Trainer that the user creates, as with any LightningModule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

pytest.importorskip("lightning")

import lightning.pytorch as lightning

from edgewise import models
from edgewise.app.train import Classification, LinearSchedule, OptimizerSettings, TrainingModule
from tests.errors import refused

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore:.*many workers", "ignore:.*no `val_dataloader`"
)  # Warnings of Lightning about its own defaults.

X = torch.randn(16, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(16) % 2
LOADER = DataLoader(TensorDataset(X, Y), batch_size=8)


def make_trainer(path: Path, **options: Any) -> lightning.Trainer:
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "default_root_dir": path, "log_every_n_steps": 1}
    return lightning.Trainer(accelerator="cpu", **quiet, **{"max_epochs": 1, **options})


def make_module(schedule: LinearSchedule | None = None) -> TrainingModule:
    torch.manual_seed(1)
    settings = OptimizerSettings(lr=0.05)
    return TrainingModule(nn.Linear(3, 2), Classification(), settings, schedule)


def test_validate_and_test_return_the_metrics(tmp_path: Path) -> None:
    module, trainer = make_module(), make_trainer(tmp_path)
    with torch.no_grad():
        loss = float(nn.functional.cross_entropy(module.model(X), Y))
    for split, run in (("val", trainer.validate), ("test", trainer.test)):
        (metrics,) = run(module, LOADER, verbose=False)
        assert metrics == pytest.approx(module.measured)
        assert metrics[f"{split}/loss"] == pytest.approx(loss, rel=1e-5)
        assert trainer.callback_metrics[f"{split}/loss"] == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize(
    "batches", [[X], [(X,)], [(X, Y)], [{"input": X}], [{"input": X, "labels": Y}]]
)
def test_predict_returns_outputs_with_and_without_a_target(tmp_path: Path, batches: Any) -> None:
    module = make_module()
    loader = DataLoader(batches, batch_size=None)
    (outputs,) = make_trainer(tmp_path).predict(module, loader)
    assert torch.equal(outputs, module(X))


def test_predict_of_graphs_without_a_target(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.loader import DataLoader as GraphLoader

    graph = Data(x=X[:3], edge_index=torch.tensor([[0, 1], [1, 2]]))
    module = TrainingModule(models.graph_gin(3, 2), Classification())
    loader = GraphLoader([graph, graph], batch_size=2)
    (outputs,) = make_trainer(tmp_path).predict(module, loader)
    assert outputs.shape == (2, 2)
    assert graph.y is None


def test_training_without_an_optimizer_is_refused(tmp_path: Path) -> None:
    module = TrainingModule(nn.Linear(3, 2), Classification())
    with refused("optimizer", expected="settings", got="None", remedy="OptimizerSettings"):
        make_trainer(tmp_path).fit(module, LOADER)


def test_a_schedule_spreads_over_the_steps_of_the_trainer(tmp_path: Path) -> None:
    module = make_module(LinearSchedule(warmup=0.0))
    rates = []

    class Rates(lightning.Callback):
        def on_train_batch_start(self, trainer: lightning.Trainer, *_: Any) -> None:
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    make_trainer(tmp_path, max_epochs=2, callbacks=[Rates()]).fit(module, LOADER)
    assert rates == pytest.approx([0.05, 0.0375, 0.025, 0.0125])
    endless = make_trainer(tmp_path, max_epochs=-1)
    with refused("steps", expected="optimizer steps", got="0", remedy="max_steps"):
        endless.fit(make_module(LinearSchedule()), LOADER)


@pytest.mark.parametrize("every", [None, 2])
def test_training_metrics_are_those_of_the_last_epoch(tmp_path: Path, every: int | None) -> None:
    """Without a validation, or with one in every second epoch."""

    def train_loss(epochs: int, every: int | None) -> float:
        module = make_module()
        trainer = make_trainer(
            tmp_path, max_epochs=epochs, check_val_every_n_epoch=every or 1, num_sanity_val_steps=0
        )
        trainer.fit(module, LOADER, None if every is None else LOADER)
        assert trainer.callback_metrics["train/loss"] == module.measured["train/loss"]
        return module.measured["train/loss"]

    for epochs in (1, 2, 3):
        assert train_loss(epochs, every) == train_loss(epochs, every=1)


def test_gradients_are_clipped_by_value_if_the_trainer_says_so(tmp_path: Path) -> None:
    options = {"gradient_clip_val": 1e-3, "gradient_clip_algorithm": "value"}
    gradients = []

    class Gradients(lightning.Callback):
        def on_before_zero_grad(self, _: Any, module: Any, __: Any) -> None:
            gradients.extend(p.grad.abs().max() for p in module.parameters() if p.grad is not None)

    make_trainer(tmp_path, callbacks=[Gradients()], **options).fit(make_module(), LOADER)
    assert max(gradients) == pytest.approx(1e-3)


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(zip(X, Y, strict=True))


def test_a_loader_without_a_length(tmp_path: Path) -> None:
    module = make_module()
    trainer = make_trainer(tmp_path, limit_train_batches=1.0)
    trainer.fit(module, DataLoader(Stream(), batch_size=8))
    assert trainer.global_step == 2
