"""Averages of the weights over steps or epochs."""

# ruff: noqa: ARG002 - Lightning passes more arguments to its hooks than they need
from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
import torch
from lightning.pytorch.callbacks import WeightAveraging
from torch import Tensor

from edgewise.torch_internals import foreach_copy, foreach_lerp
from edgewise.training.lightning_module import TrainingModule
from edgewise.training.settings import TrainerSettings

Weights = dict[str, Tensor]


class MovingAverage(WeightAveraging):
    r"""Exponential moving average :math:`\bar w \leftarrow d\,\bar w + (1 - d)w` at each step.

    In the first 1 / (1 - d) steps, the average is the plain mean (Polyak and Juditsky, Acceleration
    of stochastic approximation by averaging, 1992). Lightning's EMAWeightAveraging is not used,
    because in these steps it stays near the initial weights.

    Args:
        decay: d, from 0 to below 1.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        super().__init__(multi_avg_fn=self.add)

    @torch.no_grad()
    def add(self, average: list[Tensor], weights: list[Tensor], steps: Tensor) -> None:
        """Add ``weights`` of one dtype to ``average``, which contains ``steps`` steps already."""
        if not average[0].is_floating_point():  # Integer counters are copied, not averaged.
            foreach_copy(average, weights)
        else:
            foreach_lerp(average, weights, max(1 / (int(steps) + 1), 1 - self.decay))

    def on_validation_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Keep the average in place until :class:`History` has copied the best weights."""

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        super().on_validation_epoch_end(trainer, pl_module)


class LastAverage(lightning.Callback):
    """Mean of the weights at the ends of the last epochs (Vaswani et al., 2017, section 6.1).

    The mean replaces the weights during validation, so the saved best weights are a mean, too.
    Lightning has no mean over a window: its WeightAveraging and StochasticWeightAveraging include
    all epochs after a start, and the weights of an epoch only after its validation.

    Args:
        count: number of epochs to average; fewer at the beginning of training.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.last: list[Weights] = []

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last = state["last"]

    def on_validation_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        weights = _weights(pl_module)
        own = {name: weight.clone() for name, weight in weights.items()}
        self.last = [*self.last, own][-self.count :]
        for name, weight in weights.items():
            if weight.is_floating_point():
                weight.copy_(
                    torch.stack([one[name].to(weight.device) for one in self.last]).mean(0)
                )

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        for name, weight in _weights(pl_module).items():
            weight.copy_(self.last[-1][name])


def weight_averaging(settings: TrainerSettings) -> list[lightning.Callback]:
    """Return the callback for the average in ``settings``, or an empty list."""
    if settings.ema_decay:
        return [MovingAverage(settings.ema_decay)]
    return [LastAverage(settings.average_last_epochs)] if settings.average_last_epochs else []


def _weights(module: lightning.LightningModule) -> Weights:
    """Return the model's tensors, which can be changed in place."""
    assert isinstance(module, TrainingModule)
    return module.model.state_dict()
