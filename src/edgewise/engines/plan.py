"""Which engine? A small cost model that can be asked why."""

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
    """Within this context ``engine="auto"`` means the engine of this name, in every layer.

    For comparisons and debugging: ``with edgewise.using_engine("reference"): model(x, graph)``.
    Compiled code (``torch.compile``) does not see it.
    """
    token = _preferred.set(engine)
    try:
        yield
    finally:
        _preferred.reset(token)


def engine_for(engine: str) -> str:
    """The engine named, or the one that stands for ``"auto"``: see :func:`using_engine`.

    Under ``torch.func`` and forward-mode derivatives that is the reference, made of operations
    that know them.
    """
    if engine == "auto" and in_functorch_transform():
        return "reference"
    if engine != "auto" or torch.compiler.is_compiling():  # which cannot trace a context
        return engine
    return _preferred.get()


class Engine(Protocol[L]):
    """What an engine offers. It asks for one layout and never sees a graph.

    ``attend`` gives the output; ``attend_with_lse`` also the log-sum-exp ``[..., N_dst, H]`` of
    the scores, differentiable, so that parts of a graph can be merged. With ``grouped_heads`` it
    reads a head of keys for each group of heads of queries; else that comes once for each of them.
    """

    name: str
    layout: type[L]
    grouped_heads: bool

    def refuses(self, problem: Problem) -> list[str]:
        """Reasons against serving this problem; empty if it can."""

    def work(self, problem: Problem) -> Work:
        """What takes time, and how much of it; ``costs.json`` says how long each thing takes."""

    def attend(self, call: AttentionCall, layout: L) -> Tensor:
        """``[..., N_dst, H, Dv]``."""

    def attend_with_lse(self, call: AttentionCall, layout: L) -> tuple[Tensor, Tensor]:
        """``[..., N_dst, H, Dv]`` and ``[..., N_dst, H]``."""

    def aggregate(self, value: Tensor, weight: Tensor | None, reduce: str, layout: L) -> Tensor:
        """``[..., N_dst, H, D]``."""


class EdgeEngine(Protocol[L]):
    """What an engine offers that also gives edge tensors, in the caller's edge order."""

    layout: type[L]

    def refuses(self, problem: Problem) -> list[str]:
        """Reasons against serving this problem; empty if it can."""

    def edge_scores(self, call: AttentionCall, layout: L) -> Tensor:
        """``[..., E, H]``."""

    def edge_softmax(self, scores: Tensor, layout: L) -> Tensor:
        """``[..., E, H]``."""


@dataclass(frozen=True)
class Choice:
    """What the planner thinks of one engine: an estimate in seconds, or its reasons against.

    An engine that a call insists on has NaN: there is nothing to compare it with.
    """

    engine: str
    seconds: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The engines' estimates for one problem, best first, those that cannot serve last.

    ``note`` says what the estimates are worth where they were not measured on such a device.
    """

    choices: tuple[Choice, ...]
    note: str = ""

    @property
    def engine(self) -> str:
        """The engine that ``"auto"`` runs."""
        return self.choices[0].engine

    @property
    def seconds(self) -> float:
        """Its estimate."""
        return self.choices[0].seconds

    def __str__(self) -> str:
        lines = []
        for choice in self.choices:
            mark = "->" if choice.engine == self.engine else "  "
            why = "; ".join(choice.reasons) or _about(choice.seconds)
            lines.append(f"{mark} {choice.engine:<10} {why}")
        return "\n".join([*lines, self.note] if self.note else lines)


def _about(seconds: float) -> str:
    """An estimate; of some forms of computation the table may have no costs."""
    if math.isinf(seconds):
        return "serves if named; the table has no costs of it on such a device"
    return f"about {seconds * 1e3:.3g} ms"


def choose(problem: Problem, engines: Mapping[str, Engine[Any]], engine: str = "auto") -> Choice:
    """The first choice of :func:`plan`, without asking slower engines whether they could serve.

    Raises:
        ArgumentError: as :func:`plan` does.

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
    """What each engine would take, whether or not it can serve."""
    works = [engine.work(problem) for engine in engines.values()]
    seconds = costs_on(problem.device, problem.dtype).of(works)
    return dict(zip(engines, seconds, strict=True))


def _fastest(seconds: Mapping[str, float]) -> str:
    """By comparisons alone: ``torch.compile`` cannot sort estimates of sizes that are symbols."""
    best, *others = seconds
    for name in others:
        if seconds[name] < seconds[best]:
            best = name
    return best


def plan(problem: Problem, engines: Mapping[str, Engine[Any]], engine: str = "auto") -> Plan:
    """Compare the engines for a problem, or insist on one by name.

    Raises:
        ArgumentError: the name is unknown, or the engine named cannot serve (with its reasons and
            what the other engines say). A named engine is never replaced by another.

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
            f"{c.engine}: {'can serve' if not c.reasons else ', '.join(c.reasons)}"
            for c in choices
            if c.engine != engine
        )
        raise ArgumentError(
            "engine",
            expected="an engine that can serve this call",
            got=f"{engine!r}, which cannot: {', '.join(named.reasons)}",
            remedy=f'use engine="auto" or another ({others})',
        )
    others_after = (choice for choice in ordered.choices if choice.engine != engine)
    return Plan((named, *others_after), note)
