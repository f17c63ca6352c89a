"""Averages of the weights, which settle where the weights themselves still jump about."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
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
    r"""Lightning's WeightAveraging, :math:`\bar w \leftarrow d\,\bar w + (1 - d)w` at each step.

    Over the first 1 / (1 - d) steps it is the plain mean (Polyak and Juditsky, Acceleration of
    stochastic approximation by averaging, 1992), where Lightning's EMAWeightAveraging would still
    be near the first weights.

    Args:
        decay: d, from 0 to below 1.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        super().__init__(multi_avg_fn=self.add)

    @torch.no_grad()
    def add(self, average: list[Tensor], weights: list[Tensor], steps: Tensor) -> None:
        """Add the weights, all of one type, after so many steps that the average has taken in."""
        if not average[0].is_floating_point():  # what is counted is not averaged
            foreach_copy(average, weights)
        else:
            foreach_lerp(average, weights, max(1 / (int(steps) + 1), 1 - self.decay))

    def on_validation_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        """Leave the average in place: it is kept when validation ends, if it is the best."""

    def on_validation_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        super().on_validation_epoch_end(trainer, pl_module)


class LastAverage(lightning.Callback):
    """The mean of the weights at the ends of the last epochs (Vaswani et al., 2017, section 6.1).

    It is in the weights' place while an epoch is validated, so what is kept as the best is a mean.
    Lightning has no mean over a window: its WeightAveraging and StochasticWeightAveraging take all
    epochs from one on, and an epoch's weights only after it was validated.

    Args:
        count: how many epochs; before that many are over, all of them.
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
    """The average that these settings ask for, if any."""
    if settings.average:
        return [MovingAverage(settings.average)]
    return [LastAverage(settings.average_last)] if settings.average_last else []


def _weights(module: lightning.LightningModule) -> Weights:
    """The model's own tensors, to be read or written in place."""
    assert isinstance(module, TrainingModule)
    return module.model.state_dict()
