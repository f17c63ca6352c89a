"""Interception of attention calls, with which :mod:`edgewise.explain` records and changes weights.

An interceptor is an object whose methods are called in place of :func:`edgewise.attend`,
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

    A method receives the arguments of the call, and a function ``compute`` of the same arguments
    that passes them through outer interceptors. While it runs, its interceptor is disabled, so it
    may call :func:`edgewise.attend`.
    """

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        """Return the output of attention ``[..., N_dst, H, Dv]``."""
        return compute(call, graph)

    def attend_with_lse(
        self, call: Any, graph: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return the output of attention and the log-sum-exp of the scores, ``[..., N_dst, H]``."""
        return compute(call, graph)

    def aggregate(
        self,
        value: Tensor,
        weight: Tensor | None,
        graph: Any,
        reduce: str,
        compute: Callable[..., Tensor],
    ) -> Tensor:
        """Return the sum, mean, maximum or minimum of weighted values ``[..., N_dst, H, D]``."""
        return compute(value, weight, graph, reduce)

    def merge_attention(
        self, outputs: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return the output and log-sum-exp of attention over a union of disjoint graphs."""
        return compute(outputs)


ACTIVE: ContextVar[tuple[Interceptor, ...]] = ContextVar("interceptors", default=())
"""Active interceptors, outermost first."""


@contextmanager
def intercepting(*interceptors: Interceptor) -> Iterator[None]:
    """Pass calls in the ``with`` block through the interceptors, the last and innermost first."""
    token = ACTIVE.set((*ACTIVE.get(), *interceptors))
    try:
        yield
    finally:
        ACTIVE.reset(token)


@contextmanager
def without_interception() -> Iterator[None]:
    """Disable all interceptors within the ``with`` block."""
    token = ACTIVE.set(())
    try:
        yield
    finally:
        ACTIVE.reset(token)


def is_intercepted() -> bool:
    """Return whether any interceptor is active. If so, make the call with :func:`intercepted`."""
    return not torch.compiler.is_compiling() and bool(ACTIVE.get())


def intercepted(method: str, compute: Callable[..., Any], *args: Any) -> Any:
    """Pass a call through the active interceptors, by their method of this name."""
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
