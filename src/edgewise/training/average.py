"""Averages of the weights, which settle where the weights themselves still jump about."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import lightning.pytorch as lightning
import torch
from torch import Tensor

from edgewise.training.module import Fitting
from edgewise.training.settings import Trainer
from edgewise.training.steps import AfterStep

Weights = dict[str, Tensor]


class Average(lightning.Callback, ABC):
    """Puts an average in the weights' place while an epoch is validated.

    So the average is what is kept as the best weights, and training does not notice. Place it after
    the callback that looks at the weights when an epoch ends, and before the one that saves them.
    """

    _own: Weights | None = None

    @abstractmethod
    def at_epoch_end(self, weights: Weights) -> Weights:
        """The average, at the end of an epoch with these weights."""

    def on_validation_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        weights = _weights(pl_module)
        self._own = {name: weight.clone() for name, weight in weights.items()}
        for name, value in self.at_epoch_end(self._own).items():
            weights[name].copy_(value)

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        assert self._own is not None
        for name, weight in _weights(pl_module).items():
            weight.copy_(self._own[name])
        self._own = None


class MovingAverage(Average, AfterStep):
    r"""The average :math:`\bar w \leftarrow d\,\bar w + (1 - d)\,w` after every step.

    Over the first 1 / (1 - d) steps it is the plain mean (Polyak and Juditsky, Acceleration of
    stochastic approximation by averaging, 1992).

    Args:
        decay: d, from 0 to below 1.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.average: Weights = {}

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "average": self.average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.average = state["steps"], state["average"]

    def after_step(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.steps += 1
        share = max(1 / self.steps, 1 - self.decay)
        for name, weight in _weights(pl_module).items():
            known = self.average.get(name)
            if known is None or not weight.is_floating_point():
                self.average[name] = weight.clone()
            else:
                self.average[name] = known.to(weight.device).lerp_(weight, share)

    def at_epoch_end(self, weights: Weights) -> Weights:
        return self.average


class LastAverage(Average):
    """The mean of the weights at the ends of the last epochs (Vaswani et al., 2017, section 6.1).

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

    def at_epoch_end(self, weights: Weights) -> Weights:
        self.last = [*self.last, weights][-self.count :]
        return {
            name: torch.stack([one[name].to(weight.device) for one in self.last]).mean(0)
            if weight.is_floating_point()
            else weight
            for name, weight in weights.items()
        }


def averages(settings: Trainer) -> list[Average]:
    """The average that these settings ask for, if any."""
    if settings.average:
        return [MovingAverage(settings.average)]
    return [LastAverage(settings.average_last)] if settings.average_last else []


def _weights(module: lightning.LightningModule) -> Weights:
    """The model's own tensors, to be read or written in place."""
    assert isinstance(module, Fitting)
    return module.model.state_dict()
