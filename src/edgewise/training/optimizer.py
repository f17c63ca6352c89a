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

EMBEDDING = re.compile(r"trunk\.embedding\.")
LAYER = re.compile(r"trunk\.reader\.(?:(?:stack\.)?layers\.|cell\.\w+_l)(\d+)")
"""Those of a recurrent network are numbered at the end of a name."""


@dataclass(frozen=True)
class OptimizerSettings:
    r"""Settings of PyTorch's Adam or AdamW.

    Attributes:
        name: ``adam`` adds the decay to the gradient (L2), ``adamw`` shrinks the weight itself.
        lr: learning rate, before the schedule.
        beta2: the share of the squared gradient's average that a step keeps; lower forgets sooner.
        weight_decay: its strength.
        decay_only: a regular expression; only parameters whose name it matches decay, as GCN's
            first layer, ``^layers\.1\.``. Empty: all of them.
        layer_decay: what the learning rate of each layer of a text model is multiplied by, of that
            above it, down to the embedding (Howard and Ruder, 2018); 1 gives all of them the same.

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
                    expected="a number from 0",
                    got=repr(getattr(self, name)),
                    remedy="choose for example 0.001",
                )
        check_share(
            "optimizer.beta2", self.beta2, "choose for example 0.999, or 0.99 for short runs"
        )
        if not 0 < self.layer_decay <= 1:
            raise ArgumentError(
                "optimizer.layer_decay",
                expected="a factor above 0 and up to 1",
                got=repr(self.layer_decay),
                remedy="choose for example 0.9, or 1 to do without",
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
            ArgumentError: ``decay_only`` matches no parameter, or there are no layers for
                ``layer_decay``.

        """
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if named and not any(re.search(self.decay_only, name) for name, _ in named):
            raise ArgumentError(
                "optimizer.decay_only",
                expected="an expression that some parameter's name matches",
                got=repr(self.decay_only),
                remedy=f"the names are {', '.join(name for name, _ in named)}",
            )
        rates = self._rates([name for name, _ in named])
        groups: dict[tuple[float, float], list[nn.Parameter]] = {}
        for decays in (True, False):
            weight_decay = self.weight_decay if decays else 0.0
            for name, parameter in named:
                if bool(re.search(self.decay_only, name)) == decays:
                    groups.setdefault((weight_decay, rates[name]), []).append(parameter)
        make: Any = OPTIMIZERS[self.name]
        optimizer: torch.optim.Optimizer = make(
            [
                {"params": parameters, "weight_decay": weight_decay, "lr": rate}
                for (weight_decay, rate), parameters in groups.items()
            ]
            or [{"params": []}],
            lr=self.lr,
            betas=(0.9, self.beta2),
            fused=True,
        )
        return optimizer

    def _rates(self, names: list[str]) -> dict[str, float]:
        """The learning rate of each parameter, by its name."""
        if self.layer_decay == 1:
            return dict.fromkeys(names, self.lr)
        heights = {name: _height(name) for name in names}
        top = 1 + max((height for height in heights.values() if height is not None), default=0)
        if top == 1:
            raise ArgumentError(
                "optimizer.layer_decay",
                expected="a text model, whose layers have learning rates of their own",
                got=f"{self.layer_decay}, for a model without layers of a trunk",
                remedy="choose 1",
            )
        return {
            name: self.lr * self.layer_decay ** (top - (top if height is None else height))
            for name, height in heights.items()
        }


def _height(name: str) -> int | None:
    """How far up in a text model a parameter is: 0 in the embedding; ``None`` in the head."""
    found = LAYER.match(name)
    return 1 + int(found[1]) if found else 0 if EMBEDDING.match(name) else None
