"""Penalties that models add to the training loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

_collected: ContextVar[list[Tensor] | None] = ContextVar("penalties", default=None)


def add_penalty(penalty: Tensor) -> None:
    """Add a scalar to the training loss of the current step, from the forward pass of a model.

    Outside :func:`collect_penalties` it has no effect. Reported losses exclude penalties.
    """
    penalties = _collected.get()
    if penalties is not None:
        penalties.append(penalty)


@contextmanager
def collect_penalties() -> Iterator[list[Tensor]]:
    """Collect the penalties that models add within the ``with`` block, for a training loop.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> from edgewise.layers import collect_penalties
        >>> model = models.adaptive_span(100, begin=20)
        >>> with collect_penalties() as penalties:
        ...     loss = model(torch.randint(100, (1, 8))).square().mean()
        >>> sum(penalties, loss).backward()
    """
    penalties: list[Tensor] = []
    token = _collected.set(penalties)
    try:
        yield penalties
    finally:
        _collected.reset(token)
