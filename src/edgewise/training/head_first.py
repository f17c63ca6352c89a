"""Fine-tuning in two steps: first the head alone, then all of the model."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

import lightning.pytorch as lightning

from edgewise.training.lightning_module import TrainingModule
from edgewise.training.settings import TrainerSettings
from edgewise.training.trunk import trunk_names


class HeadFirst(lightning.Callback):
    """Keeps the trunk of a model as it is in the first epochs.

    Args:
        epochs: how many.

    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_train_epoch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        assert isinstance(pl_module, TrainingModule)
        still = trainer.current_epoch < self.epochs
        parameters = dict(pl_module.model.named_parameters())
        for name in trunk_names(parameters):
            parameters[name].requires_grad_(not still)
            if still:
                parameters[name].grad = None

    def on_fit_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        for parameter in pl_module.parameters():
            parameter.requires_grad_(True)


def head_first(settings: TrainerSettings) -> list[lightning.Callback]:
    """The callback, where the settings want one."""
    return [HeadFirst(settings.head_first)] if settings.head_first else []
