"""Optimizers, and which parameters decay."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import nn

from edgewise.arguments import check_choice, check_share
from edgewise.errors import ArgumentError

Name = Literal["adam", "adamw"]
OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


@dataclass(frozen=True)
class Optimizer:
    r"""Settings of PyTorch's Adam or AdamW.

    Attributes:
        name: ``adam`` adds the decay to the gradient (L2), ``adamw`` shrinks the weight itself.
        lr: learning rate, before the schedule.
        beta2: the share of the squared gradient's average that a step keeps; lower forgets sooner.
        weight_decay: its strength.
        decay_only: a regular expression; only parameters whose name it matches decay, as GCN's
            first layer, ``^layers\.1\.``. Empty: all of them.

    """

    name: Name = "adamw"
    lr: float = 1e-3
    beta2: float = 0.999
    weight_decay: float = 0.0
    decay_only: str = ""

    def __post_init__(self) -> None:
        check_choice("optimizer.name", self.name, get_args(Name))
        for name in ("lr", "weight_decay"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ArgumentError(
                    f"optimizer.{name}",
                    expected="a number from 0",
                    got=repr(getattr(self, name)),
                    remedy="choose for example 0.001",
                )
        check_share(
            "optimizer.beta2", self.beta2, "choose for example 0.999, or 0.99 for short runs"
        )
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
        """The optimizer of this model's parameters.

        Raises:
            ArgumentError: ``decay_only`` matches no parameter.

        """
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        decays = [p for name, p in named if re.search(self.decay_only, name)]
        if named and not decays:
            raise ArgumentError(
                "optimizer.decay_only",
                expected="an expression that some parameter's name matches",
                got=repr(self.decay_only),
                remedy=f"the names are {', '.join(name for name, _ in named)}",
            )
        others = [p for name, p in named if not re.search(self.decay_only, name)]
        groups: list[dict[str, Any]] = [{"params": decays, "weight_decay": self.weight_decay}]
        if others:
            groups.append({"params": others, "weight_decay": 0.0})
        make: Any = OPTIMIZERS[self.name]
        optimizer: torch.optim.Optimizer = make(
            groups, lr=self.lr, betas=(0.9, self.beta2), fused=True
        )
        return optimizer
