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
class ConstantSchedule(Schedule):
    """The same learning rate throughout."""

    def factor(self, step: int, steps: int) -> float:  # noqa: ARG002 - every schedule is told
        return 1.0


@dataclass(frozen=True)
class Warmed(Schedule):
    """A linear warm-up, then what :meth:`after` says.

    Attributes:
        warmup: the share of the steps in which the rate rises.

    """

    warmup: float = 0.1

    def __post_init__(self) -> None:
        self._check_share("warmup")

    def _check_share(self, name: str) -> None:
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
        return self.after(step, rising, steps)

    @abstractmethod
    def after(self, step: int, rising: float, steps: int) -> float:
        """The factor at ``step`` of ``steps``, of which the first ``rising`` were the warm-up."""


@dataclass(frozen=True)
class Falling(Warmed):
    """A linear warm-up, then down to ``floor`` at the last step.

    Attributes:
        warmup: the share of the steps in which the rate rises.
        floor: the factor at the end.

    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_share("floor")

    def after(self, step: int, rising: float, steps: int) -> float:
        done = min(1.0, (step - rising) / max(steps - rising, 1))
        return self.floor + (1 - self.floor) * self.left(done)

    @abstractmethod
    def left(self, done: float) -> float:
        """What is left, from 1 to 0, when this share of the way down is done."""


@dataclass(frozen=True)
class CosineSchedule(Falling):
    """A linear warm-up, then half a cosine down to ``floor`` (Loshchilov and Hutter, 2017)."""

    def left(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class LinearSchedule(Falling):
    """A linear warm-up, then a straight line down to ``floor``, as BERT and RoBERTa train."""

    def left(self, done: float) -> float:
        return 1 - done


@dataclass(frozen=True)
class NoamSchedule(Warmed):
    r"""A linear warm-up, then :math:`\sqrt{w / t}` at step t after w steps of warm-up.

    The first Transformer's, :math:`d^{-1/2} \min(t^{-1/2}, t\,w^{-3/2})` (Vaswani et al., 2017), in
    units of its peak :math:`(d w)^{-1/2}`, which is the optimizer's ``lr`` here.
    """

    def after(self, step: int, rising: float, steps: int) -> float:  # noqa: ARG002 - no end
        return math.sqrt(max(math.ceil(rising), 1) / (step + 1))


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": ConstantSchedule,
    "cosine": CosineSchedule,
    "linear": LinearSchedule,
    "noam": NoamSchedule,
}
"""Every schedule by the name that run folders use."""
