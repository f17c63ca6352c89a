"""Learning-rate schedules: the factor on the learning rate at each step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from edgewise.errors import ArgumentError


@dataclass(frozen=True)
class Schedule(ABC):
    """A factor for each step."""

    @abstractmethod
    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by at ``step`` of ``steps``, counted from 0."""


@dataclass(frozen=True)
class Constant(Schedule):
    """The same learning rate throughout."""

    def factor(self, step: int, steps: int) -> float:  # noqa: ARG002 - every schedule is told
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """A linear warm-up, then half a cosine down to ``floor``.

    Attributes:
        warmup: the share of the steps in which the rate rises.
        floor: the factor at the end.

    """

    warmup: float = 0.1
    floor: float = 0.0

    def __post_init__(self) -> None:
        for name in ("warmup", "floor"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(
                    f"schedule.{name}",
                    expected="a share from 0 to 1",
                    got=repr(getattr(self, name)),
                    remedy="choose for example 0.1",
                )

    def factor(self, step: int, steps: int) -> float:
        rising = self.warmup * steps
        if step < rising:
            return (step + 1) / math.ceil(rising)
        done = min(1.0, (step - rising) / max(steps - rising, 1))
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * done)) / 2


constant, cosine = Constant, Cosine

SCHEDULES: dict[str, type[Schedule]] = {"constant": Constant, "cosine": Cosine}
"""Every schedule by the name that run folders use."""
