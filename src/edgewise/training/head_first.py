"""Fine-tuning in two steps: first the head alone, then all of the model."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

import lightning.pytorch as lightning
from torch import nn

from edgewise.training.lightning_module import TrainingModule
from edgewise.training.settings import TrainerSettings
from edgewise.training.trunk import trunk_names


class HeadFirst(lightning.Callback):
    """Keeps the trunk of a model as it is in the first epochs.

    What has no gradient before training gets none later.

    Args:
        epochs: how many.

    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._trained: list[nn.Parameter] = []

    def on_fit_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        assert isinstance(pl_module, TrainingModule)
        parameters = dict(pl_module.model.named_parameters())
        trunk = trunk_names(parameters)
        self._trained = [parameters[name] for name in trunk if parameters[name].requires_grad]

    def on_train_epoch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        still = trainer.current_epoch < self.epochs
        for parameter in self._trained:
            parameter.requires_grad_(not still)
            if still:
                parameter.grad = None

    def on_fit_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        for parameter in self._trained:
            parameter.requires_grad_(True)


def head_first(settings: TrainerSettings) -> list[lightning.Callback]:
    """The callback, where the settings want one."""
    return [HeadFirst(settings.head_first)] if settings.head_first else []
