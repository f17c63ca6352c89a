"""Lightning callbacks for averages of weights, a frozen backbone and early stopping."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, WeightAveraging
from torch import Tensor, nn

from edgewise.app.train.backbone import trunk_names
from edgewise.app.train.lightning_module import TrainingModule
from edgewise.app.train.settings import TrainerSettings

Weights = dict[str, Tensor]


class MovingAverage(WeightAveraging):
    r"""Exponential moving average :math:`\bar w \leftarrow d\,\bar w + (1 - d)w` at each step.

    In the first 1 / (1 - d) steps, the average is the plain mean of the weights so far (Polyak and
    Juditsky, Acceleration of stochastic approximation by averaging, 1992). Lightning's
    EMAWeightAveraging is not used, because it stays near the initial weights in these steps.

    Args:
        decay: d, from 0 to below 1.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        super().__init__(multi_avg_fn=self.add)

    @torch.no_grad()
    def add(self, average: list[Tensor], weights: list[Tensor], steps: Tensor) -> None:
        """Add the new weights to their average over ``steps`` earlier steps, in place."""
        fraction = max(1 / (int(steps) + 1), 1 - self.decay)
        for mean, weight in zip(average, weights, strict=True):
            if mean.is_floating_point():
                mean.lerp_(weight, fraction)
            else:  # Integer counters are copied, not averaged.
                mean.copy_(weight)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the average in place of the weights, until :class:`History` has copied it."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_validation_epoch_end(trainer, pl_module)


class LastAverage(Callback):
    """Mean of the weights at the ends of the last epochs (Vaswani et al., 2017, section 6.1).

    The mean replaces the weights during validation, so the saved best weights are a mean, too.
    Lightning has no such callback: its WeightAveraging and StochasticWeightAveraging average over
    all epochs after a first one, and include the weights of an epoch only after its validation.

    Args:
        count: number of last epochs to average; in the first epochs, all epochs so far.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.last: list[Weights] = []

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        weights = _weights(pl_module)
        own = {name: weight.clone() for name, weight in weights.items()}
        self.last = [*self.last, own][-self.count :]
        for name, weight in weights.items():
            if weight.is_floating_point():
                weight.copy_(
                    torch.stack([one[name].to(weight.device) for one in self.last]).mean(0)
                )

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for name, weight in _weights(pl_module).items():
            weight.copy_(self.last[-1][name])


def _weights(module: LightningModule) -> Weights:
    """Return the model's weights and buffers by name; changing them changes the model."""
    assert isinstance(module, TrainingModule)
    return module.model.state_dict()


class HeadFirst(Callback):
    """Callback that freezes the backbone of a model in the first epochs.

    Parameters that were frozen before training stay frozen.

    Args:
        epochs: number of epochs with a frozen backbone.
    """

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self._trained: list[nn.Parameter] = []

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert isinstance(pl_module, TrainingModule)
        parameters = dict(pl_module.model.named_parameters())
        trunk = trunk_names(parameters)
        self._trained = [parameters[name] for name in trunk if parameters[name].requires_grad]

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        still = trainer.current_epoch < self.epochs
        for parameter in self._trained:
            parameter.requires_grad_(not still)
            if still:
                parameter.grad = None

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        for parameter in self._trained:
            parameter.requires_grad_(True)


class ResumableEarlyStopping(EarlyStopping):
    """Lightning's EarlyStopping, corrected for runs that are resumed.

    If the last checkpoint was saved after the decision to stop, Lightning's class trains for one
    epoch more, because checkpoints do not contain the Trainer's ``should_stop``.
    """

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.should_stop = trainer.should_stop or self.wait_count >= self.patience


def callbacks_of(settings: TrainerSettings) -> list[Callback]:
    """Return the callbacks of weight averaging, early stopping and freezing that are not disabled.

    A setting of 0 disables its callback.
    """
    found: list[Callback] = []
    if settings.ema_decay:
        found.append(MovingAverage(settings.ema_decay))
    if settings.average_last_epochs:
        found.append(LastAverage(settings.average_last_epochs))
    if settings.patience:
        # NaN counts as no improvement; History ends a run with a NaN loss.
        found.append(
            ResumableEarlyStopping(
                settings.monitor,
                patience=settings.patience,
                mode=settings.mode,
                check_finite=False,
            )
        )
    if settings.freeze_backbone_epochs:
        found.append(HeadFirst(settings.freeze_backbone_epochs))
    return found
