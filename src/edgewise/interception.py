"""Interception of attention calls: :mod:`edgewise.explain` uses it to record and change weights.

Four functions pass their calls through the active interceptors: :func:`edgewise.attend`,
:func:`edgewise.attend_with_lse`, :func:`edgewise.aggregate` and :func:`edgewise.merge_attention`.
In compiled code (``torch.compile``), interceptors have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor


class Interceptor:
    """Base class of interceptors: its methods change nothing; subclasses override some of them.

    A method gets ``compute``, a function that continues the call: through the outer interceptors to
    the computation. While a method runs, its interceptor is disabled, so the method may call
    :func:`edgewise.attend` and the other functions.
    """

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        """Return the output of attention, ``[..., N_dst, H, Dv]``, on a bound graph."""
        return compute(call, graph)

    def attend_with_lse(
        self, call: Any, graph: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return the output and the log-sum-exp ``[..., N_dst, H]``."""
        return compute(call, graph)

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        """Return the sum, mean or extreme of values; ``weight`` is ``[..., E, H]`` or ``None``."""
        return compute(value, weight, graph, reduce)

    def merge_attention(
        self, parts: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return output and log-sum-exp of a union of graphs, from those of each part."""
        return compute(parts)


ACTIVE: ContextVar[tuple[Interceptor, ...]] = ContextVar("interceptors", default=())
"""Active interceptors, outermost first."""


@contextmanager
def intercepting(*interceptors: Interceptor) -> Iterator[None]:
    """Pass attention and aggregation calls within the ``with`` block through the interceptors.

    The interceptor activated last sees each call first.
    """
    token = ACTIVE.set((*ACTIVE.get(), *interceptors))
    try:
        yield
    finally:
        ACTIVE.reset(token)


@contextmanager
def without_interception() -> Iterator[None]:
    """Intercept no call within the ``with`` block."""
    token = ACTIVE.set(())
    try:
        yield
    finally:
        ACTIVE.reset(token)


def is_intercepted() -> bool:
    """Return whether interceptors are active; if so, pass the call to :func:`intercepted`."""
    return not torch.compiler.is_compiling() and bool(ACTIVE.get())


def intercepted(method: str, compute: Callable[..., Any], *args: Any) -> Any:
    """Pass the call ``compute(*args)`` through the active interceptors and return the result."""
    active = ACTIVE.get()
    if not active:
        return compute(*args)
    token = ACTIVE.set(active[:-1])
    try:
        return getattr(active[-1], method)(
            *args, lambda *changed: intercepted(method, compute, *changed)
        )
    finally:
        ACTIVE.reset(token)
