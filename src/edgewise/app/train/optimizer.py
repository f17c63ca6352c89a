"""Optimizer settings; weight decay and learning rate can depend on the parameter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import nn

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError

Name = Literal["adam", "adamw"]
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}

EMBEDDING = re.compile(r"trunk\.embedding\.")
LAYER = re.compile(r"trunk\.backbone\.(?:(?:stack\.)?layers\.|cell\.\w+_l)(\d+)")
"""Matches the number of the layer in a parameter name; group 1 is the number."""


@dataclass(frozen=True)
class OptimizerSettings:
    r"""Settings of PyTorch's Adam or AdamW.

    Attributes:
        name: ``adam`` (weight decay as an L2 penalty) or ``adamw`` (decoupled weight decay).
        lr: learning rate. At each step, it is multiplied by the factor of the schedule.
        beta2: decay rate of the running average of squared gradients.
        weight_decay: weight decay coefficient.
        decay_only: regular expression for the names of parameters with weight decay, such as
            ``^layers\.1\.`` for GCN's first layer. If empty, all parameters have weight decay.
        layer_decay: for text models, the learning rate of a layer divided by that of the layer
            above it (Howard and Ruder, 2018). The embedding is the lowest layer; the head has the
            full rate. With 1, all rates are equal.

    Example:
        >>> from edgewise.app.train import OptimizerSettings
        >>> settings = OptimizerSettings("adamw", lr=3e-4, weight_decay=0.01)
        >>> settings.lr, settings.beta2
        (0.0003, 0.999)
    """

    name: Name = "adamw"
    lr: float = 1e-3
    beta2: float = 0.999
    weight_decay: float = 0.0
    decay_only: str = ""
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        check_choice("optimizer.name", self.name, get_args(Name))
        for name in ("lr", "weight_decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ArgumentError(
                    f"optimizer.{name}",
                    expected="a number of at least 0",
                    got=repr(getattr(self, name)),
                    remedy="choose for example 0.001",
                )
        remedy = "choose for example 0.999, or 0.99 for short runs"
        check_range("optimizer.beta2", self.beta2, remedy, least=0, below=1)
        remedy = "choose for example 0.9, or 1 for the same rate in all layers"
        check_range("optimizer.layer_decay", self.layer_decay, remedy, above=0, most=1)
        try:
            re.compile(self.decay_only)
        except re.error as error:
            raise ArgumentError(
                "optimizer.decay_only",
                expected="a regular expression",
                got=f"{self.decay_only!r} ({error})",
                remedy="match the start of parameter names, such as '^layers\\.1\\.'",
            ) from error

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        """Create the optimizer for the model's parameters.

        Raises:
            ArgumentError: ``decay_only`` matches no parameter, or ``layer_decay`` is set for a
                model without numbered layers.
        """
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if trained and not any(re.search(self.decay_only, name) for name, _ in trained):
            raise ArgumentError(
                "optimizer.decay_only",
                expected="a regular expression that matches a parameter's name",
                got=repr(self.decay_only),
                remedy=f"choose among the names {', '.join(name for name, _ in trained)}",
            )
        rates = self._rates([name for name, _ in trained])
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for decays in (True, False):
            weight_decay = self.weight_decay if decays else 0.0
            for name, parameter in trained:
                if bool(re.search(self.decay_only, name)) == decays:
                    groups.setdefault((weight_decay, rates[name]), []).append(parameter)
        make: Any = OPTIMIZERS[self.name]
        optimizer: torch.optim.Optimizer = make(
            [
                {"params": group, "weight_decay": weight_decay, "lr": rate}
                for (weight_decay, rate), group in groups.items()
            ]
            or [{"params": []}],
            lr=self.lr,
            betas=(0.9, self.beta2),
            fused=True,
        )
        return optimizer

    def _rates(self, names: list[str]) -> dict[str, float]:
        """Return the learning rate of each parameter, by its name."""
        if self.layer_decay == 1:
            return dict.fromkeys(names, self.lr)
        heights = {name: _height(name) for name in names}
        top = 1 + max((height for height in heights.values() if height is not None), default=0)
        if top == 1:
            raise ArgumentError(
                "optimizer.layer_decay",
                expected="1, or a text model with numbered layers",
                got=f"{self.layer_decay} for a model without numbered layers",
                remedy="set optimizer.layer_decay to 1",
            )
        return {
            name: self.lr * self.layer_decay ** (top - (top if height is None else height))
            for name, height in heights.items()
        }


def _height(name: str) -> int | None:
    """Return a parameter's layer number from 1; 0 for the embedding, None outside text layers."""
    match = LAYER.match(name)
    return 1 + int(match[1]) if match else 0 if EMBEDDING.match(name) else None
