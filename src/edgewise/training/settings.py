"""How long to train, what to watch, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import ArgumentError, unknown_name

Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class Trainer:
    """Settings of a run.

    Attributes:
        epochs: the most passes over the training data.
        patience: stop after this many epochs without a better value; 0 never stops early.
        monitor: the metric whose best epoch gives the final weights; the first of equals.
        better: whether a higher or a lower value of it is better.
        clip_norm: gradients are scaled down to this norm; 0 leaves them as they are.
        accelerator: Lightning's word for the device: ``auto``, ``cpu``, ``gpu``.
        save_every: seconds between two checkpoints, which is what a killed run loses at most
            (saving takes longer breaks where it takes more than a twentieth of the time).

    """

    epochs: int = 100
    patience: int = 0
    monitor: str = "val/accuracy"
    better: Better = "higher"
    clip_norm: float = 0.0
    accelerator: str = "auto"
    save_every: float = 5.0

    def __post_init__(self) -> None:
        if self.better not in get_args(Better):
            raise unknown_name("trainer.better", self.better, get_args(Better))
        if self.epochs < 1:
            raise ArgumentError(
                "trainer.epochs", expected="at least 1", got=repr(self.epochs), remedy="train"
            )
        for name in ("patience", "clip_norm", "save_every"):
            if not getattr(self, name) >= 0:
                raise ArgumentError(
                    f"trainer.{name}",
                    expected="a number from 0",
                    got=repr(getattr(self, name)),
                    remedy="choose 0 to do without",
                )
