"""Learning-rate schedules."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from edgewise._utils.arguments import check_range


@dataclass(frozen=True)
class Schedule(ABC):
    """Base class of learning-rate schedules.

    Example:
        >>> from dataclasses import dataclass
        >>> from edgewise.app.train import Schedule
        >>> @dataclass(frozen=True)
        ... class Halving(Schedule):
        ...     def factor(self, step, steps):
        ...         return 0.5 ** (10 * step // steps)
        >>> Halving().factor(step=50, steps=100)
        0.03125
    """

    @abstractmethod
    def factor(self, step: int, steps: int) -> float:
        """Return the factor for the learning rate at ``step``, from 0, of ``steps``."""


@dataclass(frozen=True)
class ConstantSchedule(Schedule):
    """Constant learning rate: the factor is always 1.

    Example:
        >>> from edgewise.app.train import ConstantSchedule
        >>> ConstantSchedule().factor(step=3, steps=10)
        1.0
    """

    def factor(self, step: int, steps: int) -> float:  # noqa: ARG002 - part of the interface
        return 1.0


@dataclass(frozen=True)
class WarmupSchedule(Schedule):
    """Base class of schedules with linear warm-up, after which :meth:`after` gives the factor.

    Attributes:
        warmup: fraction of the steps in which the learning rate rises from near 0 to its maximum.
    """

    warmup: float = 0.1

    def __post_init__(self) -> None:
        check_range("schedule.warmup", self.warmup, "choose for example 0.1", least=0, most=1)

    def factor(self, step: int, steps: int) -> float:
        warmup_steps = self.warmup * steps
        if step < warmup_steps:
            return (step + 1) / math.ceil(warmup_steps)
        return self.after(step, warmup_steps, steps)

    @abstractmethod
    def after(self, step: int, warmup_steps: float, steps: int) -> float:
        """Return the factor of the learning rate after the warm-up."""


@dataclass(frozen=True)
class DecaySchedule(WarmupSchedule):
    """Base class of schedules with linear warm-up, followed by a decay to ``floor``.

    Attributes:
        floor: learning rate at the end, as a fraction of its maximum.
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("schedule.floor", self.floor, "choose for example 0.1", least=0, most=1)

    def after(self, step: int, warmup_steps: float, steps: int) -> float:
        done = min(1.0, (step - warmup_steps) / max(steps - warmup_steps, 1))
        return self.floor + (1 - self.floor) * self.remaining(done)

    @abstractmethod
    def remaining(self, done: float) -> float:
        """Return the factor of the decay, which falls from 1 to 0."""


@dataclass(frozen=True)
class CosineSchedule(DecaySchedule):
    """Linear warm-up, then cosine decay to ``floor`` (Loshchilov and Hutter, 2017).

    Example:
        >>> from edgewise.app.train import CosineSchedule
        >>> schedule = CosineSchedule(warmup=0.1)
        >>> [round(schedule.factor(step, 100), 2) for step in (0, 9, 50, 99)]
        [0.1, 1.0, 0.59, 0.0]
    """

    def remaining(self, done: float) -> float:
        return (1 + math.cos(math.pi * done)) / 2


@dataclass(frozen=True)
class LinearSchedule(DecaySchedule):
    """Linear warm-up, then linear decay to ``floor``, as for BERT and RoBERTa.

    Example:
        >>> from edgewise.app.train import LinearSchedule
        >>> schedule = LinearSchedule(warmup=0.1)
        >>> [round(schedule.factor(step, 100), 2) for step in (0, 9, 50, 99)]
        [0.1, 1.0, 0.56, 0.01]
    """

    def remaining(self, done: float) -> float:
        return 1 - done


@dataclass(frozen=True)
class NoamSchedule(WarmupSchedule):
    r"""Linear warm-up over w steps, then :math:`\sqrt{w / t}` at step t.

    This is the schedule of the first Transformer, :math:`d^{-1/2} \min(t^{-1/2}, t\,w^{-3/2})` with
    width d (Vaswani et al., 2017), divided by its maximum :math:`(d w)^{-1/2}`. To get the learning
    rates of the paper, set the optimizer's ``lr`` to this maximum.

    Example:
        >>> from edgewise.app.train import NoamSchedule
        >>> schedule = NoamSchedule(warmup=0.1)
        >>> [round(schedule.factor(step, 100), 2) for step in (0, 9, 39, 89)]
        [0.1, 1.0, 0.5, 0.33]
    """

    def after(self, step: int, warmup_steps: float, steps: int) -> float:  # noqa: ARG002 - the schedule does not end
        return math.sqrt(max(math.ceil(warmup_steps), 1) / (step + 1))


SCHEDULES: dict[str, type[Schedule]] = {
    "constant": ConstantSchedule,
    "cosine": CosineSchedule,
    "linear": LinearSchedule,
    "noam": NoamSchedule,
}
"""Schedules by the name that recipes and run folders use."""
