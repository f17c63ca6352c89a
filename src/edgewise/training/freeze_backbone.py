"""Fine-tuning in two phases: first only the head, then the whole model."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

import lightning.pytorch as lightning
from torch import nn

from edgewise.training.lightning_module import TrainingModule
from edgewise.training.settings import TrainerSettings
from edgewise.training.trunk import trunk_names


class HeadFirst(lightning.Callback):
    """Callback that freezes the backbone of a model in the first epochs.

    Parameters that were frozen before training stay frozen.

    Args:
        epochs: number of epochs with a frozen backbone.
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


def freeze_backbone(settings: TrainerSettings) -> list[lightning.Callback]:
    """Return the callback, or nothing if ``freeze_backbone_epochs`` is 0."""
    return [HeadFirst(settings.freeze_backbone_epochs)] if settings.freeze_backbone_epochs else []
