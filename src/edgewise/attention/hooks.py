"""Interception of attention calls, with which :mod:`edgewise.explain` records and changes weights.

An interceptor is an object whose methods are called in place of :func:`edgewise.attend`,
:func:`edgewise.attend_with_lse`, :func:`edgewise.aggregate` and :func:`edgewise.merge_attention`.
In compiled code (``torch.compile``), interceptors have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


class Interceptor:
    """Base class of interceptors: its methods change nothing; subclasses override some of them.

    A method receives the arguments of the call, and a function ``compute`` of the same arguments
    that passes them through outer interceptors. While it runs, its interceptor is disabled, so it
    may call :func:`edgewise.attend`.
    """

    changes_heads = False
    """Whether the outputs of calls must be those of heads, even if a model has a faster way."""

    def changed(self, call: Any, graph: Any) -> tuple[Any, Any]:
        """Return the call and graph of which attention is computed, with or without log-sum-exp."""
        return call, graph

    def attend(self, call: Any, graph: Any, compute: Callable[..., Tensor]) -> Tensor:
        """Return the output of attention ``[..., N_dst, H, Dv]``."""
        return compute(*self.changed(call, graph))

    def attend_with_lse(
        self, call: Any, graph: Any, compute: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return the output of attention and the log-sum-exp of the scores, ``[..., N_dst, H]``."""
        return compute(*self.changed(call, graph))

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


@dataclass(frozen=True, eq=False)
class Nodes:
    """Tokens and heads that the nodes of an attention call stand for.

    Attributes:
        sizes: numbers of target tokens and of source tokens.
        target, source: token of each target ``[N_dst]`` and of each source ``[N_src]``; by default
            its index.
        head: head of each target ``[N_dst]``, of ``heads`` heads; ``None`` if the heads are those
            of the call.
        unused: mask ``[N_dst]`` of targets whose outputs the model replaces.
    """

    sizes: tuple[int, int]
    target: Tensor | None = None
    source: Tensor | None = None
    head: Tensor | None = None
    heads: int = 1
    unused: Tensor | None = None

    @classmethod
    def of_heads(cls, heads: int, count: int, device: torch.device) -> Nodes:
        """Describe ``heads * count`` nodes: ``count`` tokens of the first head, and so on."""
        head, token = torch.cartesian_prod(torch.arange(heads), torch.arange(count)).to(device).T
        return cls((count, count), token, token, head, heads)

    def __getitem__(self, nodes: tuple[Tensor, Tensor]) -> Nodes:
        """Describe some of the targets and of the sources, as nodes of another call."""
        target, source = nodes
        head = None if self.head is None else self.head[target]
        targets, sources = self.target_tokens(target), self.source_tokens(source)
        return Nodes(self.sizes, targets, sources, head, self.heads)

    def edges(self, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the source tokens and the target tokens of edges ``[2, E]`` of the call."""
        source, target = edge_index
        return self.source_tokens(source), self.target_tokens(target)

    def target_tokens(self, nodes: Tensor) -> Tensor:
        """Return the tokens of some targets of the call."""
        return nodes if self.target is None else self.target.to(nodes.device)[nodes]

    def source_tokens(self, nodes: Tensor) -> Tensor:
        """Return the tokens of some sources of the call."""
        return nodes if self.source is None else self.source.to(nodes.device)[nodes]


ACTIVE: ContextVar[tuple[Interceptor, ...]] = ContextVar("interceptors", default=())
"""Active interceptors, outermost first."""
NODES: ContextVar[Nodes | None] = ContextVar("nodes", default=None)
"""Description of the nodes of the running call; ``None`` if they are tokens."""


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


def nodes_of(graph: Any) -> Nodes:
    """Return the description of the nodes of the running call, by default that each is a token."""
    return NODES.get() or Nodes((graph.num_targets, graph.num_sources))


def nodes_are(describe: Callable[[], Nodes]) -> AbstractContextManager[None]:
    """Describe the nodes of the calls in the ``with`` block to interceptors, if there are any."""
    return _described(describe()) if is_intercepted() else nullcontext()


@contextmanager
def _described(nodes: Nodes) -> Iterator[None]:
    token = NODES.set(nodes)
    try:
        yield
    finally:
        NODES.reset(token)


def head_outputs_are_changed() -> bool:
    """Return whether an interceptor needs the outputs of heads, not parts of their computation."""
    return is_intercepted() and any(active.changes_heads for active in ACTIVE.get())


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
