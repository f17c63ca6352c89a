"""A moving average of the weights, which settles where the weights themselves still jump about."""

# ruff: noqa: ARG002 - Lightning passes its hooks more than they need
from __future__ import annotations

from typing import Any

import lightning.pytorch as lightning
from torch import Tensor

from edgewise.training.module import Fitting


class Average(lightning.Callback):
    r"""Keeps :math:`\bar w \leftarrow d\,\bar w + (1 - d)\,w` after every step, for validation.

    The average is what is validated, and so what is kept as the best weights. Over the first
    1 / (1 - d) steps it is the plain mean (Polyak and Juditsky, Acceleration of stochastic
    approximation by averaging, 1992). Place it after the callback that looks at the weights when an
    epoch ends, and before the one that saves them.

    Args:
        decay: d, from 0 to below 1.
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.average: dict[str, Tensor] = {}
        self._own: dict[str, Tensor] | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, "average": self.average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps, self.average = state["steps"], state["average"]

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self.steps += 1
        share = max(1 / self.steps, 1 - self.decay)
        for name, weight in _weights(pl_module).items():
            known = self.average.get(name)
            if known is None or not weight.is_floating_point():
                self.average[name] = weight.clone()
            else:
                self.average[name] = known.to(weight.device).lerp_(weight, share)

    def on_validation_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        weights = _weights(pl_module)
        self._own = {name: weight.clone() for name, weight in weights.items()}
        for name, weight in weights.items():
            weight.copy_(self.average[name])

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        assert self._own is not None
        for name, weight in _weights(pl_module).items():
            weight.copy_(self._own[name])
        self._own = None


def _weights(module: lightning.LightningModule) -> dict[str, Tensor]:
    """The model's own tensors, to be read or written in place."""
    assert isinstance(module, Fitting)
    return module.model.state_dict()
