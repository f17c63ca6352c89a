"""Choice of the engine by estimated cost, and its explanation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from edgewise.arguments import check_choice
from edgewise.engines.call import AttentionCall, Problem
from edgewise.engines.costs import Work, costs_on, doubt
from edgewise.errors import ArgumentError
from edgewise.torch_internals import in_functorch_transform

L = TypeVar("L")
_preferred: ContextVar[str] = ContextVar("engine", default="auto")


@contextmanager
def using_engine(engine: str) -> Iterator[None]:
    """Replace ``engine="auto"`` by the engine of this name, in all calls within the ``with`` block.

    This is for comparisons and debugging, as in
    ``with edgewise.using_engine("reference"): model(x, graph)``. Compiled code
    (``torch.compile``) ignores this setting.

    Example:
        >>> import torch, edgewise as ew
        >>> from edgewise import graphs
        >>> x = torch.randn(5, 2, 4)
        >>> with ew.using_engine("reference"):
        ...     out = ew.attend(x, x, x, graphs.window(1))
        >>> torch.allclose(out, ew.attend(x, x, x, graphs.window(1)), atol=1e-5)
        True
    """
    token = _preferred.set(engine)
    try:
        yield
    finally:
        _preferred.reset(token)


def engine_for(engine: str) -> str:
    """Return the name of the engine to use, resolving ``"auto"`` as set by :func:`using_engine`.

    Under ``torch.func`` and forward-mode differentiation ``"auto"`` means the reference engine,
    the only one made of differentiable PyTorch operations.
    """
    if engine == "auto" and in_functorch_transform():
        return "reference"
    if engine != "auto" or torch.compiler.is_compiling():  # Dynamo cannot trace a ContextVar.
        return engine
    return _preferred.get()


class Engine(Protocol[L]):
    """Interface of an engine, which receives a layout of class ``layout`` instead of the graph.

    ``attend_with_lse`` also returns the log-sum-exp of the scores, which is differentiable, so that
    results for parts of a graph can be merged. An engine with ``grouped_heads`` accepts fewer heads
    of keys and values than of queries; for other engines, keys and values are repeated.
    """

    name: str
    layout: type[L]
    grouped_heads: bool

    def refuses(self, problem: Problem) -> list[str]:
        """Return the reasons why this engine does not support a problem; empty if it does."""

    def work(self, problem: Problem) -> Work:
        """Return the kind of computation and the counts of its operations; see ``costs.json``."""

    def attend(self, call: AttentionCall, layout: L) -> Tensor:
        """Return the output ``[..., N_dst, H, Dv]``."""

    def attend_with_lse(self, call: AttentionCall, layout: L) -> tuple[Tensor, Tensor]:
        """Return output ``[..., N_dst, H, Dv]`` and log-sum-exp ``[..., N_dst, H]``."""

    def aggregate(self, value: Tensor, weight: Tensor | None, reduce: str, layout: L) -> Tensor:
        """Return the sum, mean, max or min of weight · value over edges, ``[..., N_dst, H, D]``."""


class EdgeEngine(Protocol[L]):
    """Interface of an engine that also computes edge tensors, in the caller's edge order."""

    layout: type[L]

    def refuses(self, problem: Problem) -> list[str]:
        """Return the reasons why this engine does not support a problem; empty if it does."""

    def edge_scores(self, call: AttentionCall, layout: L) -> Tensor:
        """Return score · gain + bias of each edge, ``[..., E, H]``."""

    def edge_softmax(self, scores: Tensor, layout: L) -> Tensor:
        """Return the softmax over the edges of each target, ``[..., E, H]``."""


@dataclass(frozen=True)
class Choice:
    """Estimated seconds of one engine, or the reasons why the engine does not support the call.

    The estimate is NaN if the caller named the engine, because engines are not compared then.
    """

    engine: str
    seconds: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Estimates of all engines for one problem, fastest first, unsuitable engines last.

    Attributes:
        choices: estimates of one pass over the whole graph.
        note: caveat if the estimates are not based on measurements on this type of device.
        parts: disjoint parts of the graph and their engines, if computing them separately and
            merging the results is faster than one pass; else empty.
    """

    choices: tuple[Choice, ...]
    note: str = ""
    parts: tuple[tuple[str, Choice], ...] = ()

    @property
    def engine(self) -> str:
        """Name of the fastest engine for one pass over the whole graph."""
        return self.choices[0].engine

    @property
    def seconds(self) -> float:
        """Estimated seconds of that engine."""
        return self.choices[0].seconds

    def __str__(self) -> str:
        lines = [
            f"-> {choice.engine:<10} {_about(choice.seconds)}, for the part {part}"
            for part, choice in self.parts
        ]
        for choice in self.choices:
            mark = "->" if choice.engine == self.engine and not self.parts else "  "
            why = "; ".join(choice.reasons) or _about(choice.seconds)
            lines.append(f"{mark} {choice.engine:<10} {why}")
        return "\n".join([*lines, self.note] if self.note else lines)


def _about(seconds: float) -> str:
    """Format an estimate; infinity means the table has no costs for this form of computation."""
    if math.isinf(seconds):
        return "supports the call, but has no known costs on this device; name it to use it"
    return f"about {seconds * 1e3:.3g} ms"


def choose(problem: Problem, engines: Mapping[str, Engine[Any]], engine: str = "auto") -> Choice:
    """Return the first choice of :func:`plan`, without checking slower engines.

    Raises:
        ArgumentError: as in :func:`plan`.

    """
    if engine in engines and not engines[engine].refuses(problem):
        return Choice(engine, math.nan)
    found = estimates(problem, engines) if engine == "auto" else {}
    while found:
        name = _fastest(found)
        seconds = found.pop(name)
        if not engines[name].refuses(problem):
            return Choice(name, seconds)
    return plan(problem, engines, engine).choices[0]


def estimates(problem: Problem, engines: Mapping[str, Engine[Any]]) -> dict[str, float]:
    """Return the estimated seconds of each engine, even if it does not support the problem."""
    works = [engine.work(problem) for engine in engines.values()]
    seconds = costs_on(problem.device, problem.dtype).of(works)
    return dict(zip(engines, seconds, strict=True))


def _fastest(seconds: Mapping[str, float]) -> str:
    """Return the engine with the least seconds.

    The minimum is found by a loop, because ``torch.compile`` cannot sort estimates with symbolic
    sizes.
    """
    best, *others = seconds
    for name in others:
        if seconds[name] < seconds[best]:
            best = name
    return best


def plan(problem: Problem, engines: Mapping[str, Engine[Any]], engine: str = "auto") -> Plan:
    """Compare the engines for a problem, or check the named engine.

    Raises:
        ArgumentError: if the name is unknown, or the named engine does not support the call; the
            error lists the reasons of all engines. A named engine is never replaced by another.

    """
    check_choice("engine", engine, ["auto", *engines])
    choices = []
    for name, seconds in estimates(problem, engines).items():
        reasons = tuple(engines[name].refuses(problem))
        choices.append(Choice(name, math.inf if reasons else seconds, reasons))
    note = doubt(problem.device, problem.dtype)
    ordered = Plan(tuple(sorted(choices, key=lambda choice: choice.seconds)), note)
    if engine == "auto":
        return ordered
    named = next(choice for choice in choices if choice.engine == engine)
    if named.reasons:
        others = "; ".join(
            f"{c.engine}: {'supports the call' if not c.reasons else ', '.join(c.reasons)}"
            for c in choices
            if c.engine != engine
        )
        raise ArgumentError(
            "engine",
            expected="an engine that supports this call",
            got=f"{engine!r}, which does not: {', '.join(named.reasons)}",
            remedy=f'use engine="auto" or another engine ({others})',
        )
    others_after = (choice for choice in ordered.choices if choice.engine != engine)
    return Plan((named, *others_after), note)
