"""Interception of attention calls, by which :mod:`edgewise.explain` records and changes them.

Every function of the library that computes or applies weights of edges asks for interceptors:
:func:`edgewise.attend`, :func:`edgewise.attend_with_lse`, :func:`edgewise.aggregate` and
:func:`edgewise.merge_attention`. Compiled code (``torch.compile``) does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor


class Interceptor:
    """Base class, which changes nothing. Each method may change arguments and results.

    ``compute`` continues the call: with outer interceptors first, then with the computation. A
    method runs with its own interceptor disabled, so it may call these functions itself.
    """

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        """Return ``[..., N_dst, H, Dv]`` for an ``AttentionCall`` and a bound graph."""
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
        """Return the output and log-sum-exp of a union from pairs of those of its parts."""
        return compute(parts)


ACTIVE: ContextVar[tuple[Interceptor, ...]] = ContextVar("interceptors", default=())
"""Interceptors of this context, the outermost first."""


@contextmanager
def intercepting(*interceptors: Interceptor) -> Iterator[None]:
    """Pass the attention and aggregation calls of this context through the interceptors.

    The interceptor activated last sees each call first.
    """
    token = ACTIVE.set((*ACTIVE.get(), *interceptors))
    try:
        yield
    finally:
        ACTIVE.reset(token)


@contextmanager
def without_interception() -> Iterator[None]:
    """Intercept no call in this context."""
    token = ACTIVE.set(())
    try:
        yield
    finally:
        ACTIVE.reset(token)


def is_intercepted() -> bool:
    """Return whether a call has to go through :func:`intercepted`."""
    return not torch.compiler.is_compiling() and bool(ACTIVE.get())


def intercepted(method: str, compute: Callable[..., Any], *args: Any) -> Any:
    """Return the result of ``compute(*args)`` as the active interceptors change it."""
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
