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
class WarmupSchedule(Schedule):
    """A linear warm-up, then what :meth:`after` says.

    Attributes:
        warmup: the share of the steps in which the rate rises.

    """

    warmup: float = 0.1

    def __post_init__(self) -> None:
        _check_share("schedule.warmup", self.warmup)

    def factor(self, step: int, steps: int) -> float:
        warmup_steps = self.warmup * steps
        if step < warmup_steps:
            return (step + 1) / math.ceil(warmup_steps)
        return self.after(step, warmup_steps, steps)

    @abstractmethod
    def after(self, step: int, warmup_steps: float, steps: int) -> float:
        """The factor at ``step`` of ``steps``, after ``warmup_steps`` of them."""


@dataclass(frozen=True)
class DecaySchedule(WarmupSchedule):
    """A linear warm-up, then down to ``floor`` at the last step.

    Attributes:
        warmup: the share of the steps in which the rate rises.
        floor: the factor at the end.

    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share("schedule.floor", self.floor)

    def after(self, step: int, warmup_steps: float, steps: int) -> float:
        done = min(1.0, (step - warmup_steps) / max(steps - warmup_steps, 1))
        return self.floor + (1 - self.floor) * self.remaining(done)

    @abstractmethod
    def remaining(self, done: float) -> float:
        """What remains, from 1 to 0, when this share of the way down is done."""


@dataclass(frozen=True)
class CosineSchedule(DecaySchedule):
    """A linear warm-up, then half a cosine down to ``floor`` (Loshchilov and Hutter, 2017)."""

    def remaining(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class LinearSchedule(DecaySchedule):
    """A linear warm-up, then a straight line down to ``floor``, as BERT and RoBERTa train."""

    def remaining(self, done: float) -> float:
        return 1 - done


@dataclass(frozen=True)
class NoamSchedule(WarmupSchedule):
    r"""A linear warm-up, then :math:`\sqrt{w / t}` at step t after w steps of warm-up.

    The first Transformer's, :math:`d^{-1/2} \min(t^{-1/2}, t\,w^{-3/2})` (Vaswani et al., 2017), in
    units of its peak :math:`(d w)^{-1/2}`, which is the optimizer's ``lr`` here.
    """

    def after(self, step: int, warmup_steps: float, steps: int) -> float:  # noqa: ARG002 - no end
        return math.sqrt(max(math.ceil(warmup_steps), 1) / (step + 1))


def _check_share(argument: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ArgumentError(
            argument,
            expected="a share from 0 to 1",
            got=repr(value),
            remedy="choose for example 0.1",
        )


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": ConstantSchedule,
    "cosine": CosineSchedule,
    "linear": LinearSchedule,
    "noam": NoamSchedule,
}
"""Every schedule by the name that run folders use."""
