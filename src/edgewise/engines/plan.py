"""Choice of the engine with the lowest estimated time, and the text that explains the choice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from torch import Tensor

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.engines.call import AttentionCall, Problem
from edgewise.engines.costs import Work, costs_on, doubt

L = TypeVar("L")


class Engine(Protocol[L]):
    """Interface of an engine, an implementation of attention over a graph.

    Attributes:
        name: name of the engine, such as "rows".
        layout: class of the tensors in which the engine reads a graph, such as sorted edges. They
            are computed once per graph.
        grouped_heads: whether the engine accepts fewer heads of keys and values than of queries
            (grouped-query attention). For other engines, the heads are repeated.
    """

    name: str
    layout: type[L]
    grouped_heads: bool

    def refuses(self, problem: Problem) -> list[str]:
        """Return the reasons why this engine cannot compute a call; an empty list if it can."""

    def work(self, problem: Problem) -> Work:
        """Return the number of times each operation runs, for the time estimate in ``costs.py``."""

    def attend(self, call: AttentionCall, layout: L) -> Tensor:
        """Return the attention output ``[..., N_dst, H, Dv]``."""

    def attend_with_lse(self, call: AttentionCall, layout: L) -> tuple[Tensor, Tensor]:
        """Return output ``[..., N_dst, H, Dv]`` and log-sum-exp of the scores ``[..., N_dst, H]``.

        Both are differentiable, so that results on several graphs without common edges can be
        merged into the result on their union.
        """

    def aggregate(self, value: Tensor, weight: Tensor | None, reduce: str, layout: L) -> Tensor:
        """Reduce weight · value over the edges of each target to ``[..., N_dst, H, D]``.

        Args:
            value: vectors of the source nodes, ``[..., N_src, H, D]``.
            weight: weights of the edges, ``[..., E, H]``; ``None`` for weights of 1.
            reduce: "sum", "mean", "max" or "min".
            layout: the graph in the form that the engine reads.
        """


class EdgeEngine(Protocol[L]):
    """Interface of an engine that also computes the scores and attention weights of single edges.

    Scores and weights are in the caller's edge order.
    """

    layout: type[L]

    def refuses(self, problem: Problem) -> list[str]:
        """Return the reasons why this engine cannot compute a call; an empty list if it can."""

    def edge_scores(self, call: AttentionCall, layout: L) -> Tensor:
        """Return score · gain + bias for each edge, ``[..., E, H]``.

        Args:
            call: checked arguments of attention.
            layout: the graph in the form that the engine reads.
        """

    def edge_softmax(self, scores: Tensor, layout: L) -> Tensor:
        """Return attention weights ``[..., E, H]``: the softmax over the edges of each target."""


@dataclass(frozen=True)
class Choice:
    """Estimated seconds of an engine, NaN if the caller named it, or the reasons against it."""

    engine: str
    seconds: float
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Estimated times of all engines for one call.

    Attributes:
        choices: one entry per engine for the whole graph, the fastest first, and those that cannot
            compute the call last.
        note: says where the estimates come from if they are not measured on this type of device.
        parts: name and engine of each part of the graph, if separate parts are faster.
    """

    choices: tuple[Choice, ...]
    note: str = ""
    parts: tuple[tuple[str, Choice], ...] = ()

    @property
    def engine(self) -> str:
        """Name of the engine that is fastest for the whole graph."""
        return self.choices[0].engine

    @property
    def seconds(self) -> float:
        """Estimated seconds of :attr:`engine`, forward and backward together."""
        return self.choices[0].seconds

    def __str__(self) -> str:
        lines = [
            f"-> {choice.engine:<10} {_about(choice.seconds)}, for the part {graph}"
            for graph, choice in self.parts
        ]
        for choice in self.choices:
            mark = "->" if choice.engine == self.engine and not self.parts else "  "
            why = "; ".join(choice.reasons) or _about(choice.seconds)
            lines.append(f"{mark} {choice.engine:<10} {why}")
        return "\n".join([*lines, self.note] if self.note else lines)


def _about(seconds: float) -> str:
    """Return an estimate as text; infinity means that ``costs.json`` has no entry for it."""
    if math.isinf(seconds):
        return "supports the call, but has no known costs on this device; name it to use it"
    return f"about {seconds * 1e3:.3g} ms"


def choose(
    problem: Problem, engines: Mapping[str, Engine[Any]], engine: str = "auto"
) -> Choice | None:
    """Return the first entry of :func:`plan` without checking engines that are slower.

    The result is None if :func:`plan` raises an error, because the named engine refuses the call.
    """
    if engine in engines and not engines[engine].refuses(problem):
        return Choice(engine, math.nan)
    seconds_by_name = estimates(problem, engines) if engine == "auto" else {}
    while seconds_by_name:
        name = _fastest(seconds_by_name)
        seconds = seconds_by_name.pop(name)
        if not engines[name].refuses(problem):
            return Choice(name, seconds)
    return None


def estimates(problem: Problem, engines: Mapping[str, Engine[Any]]) -> dict[str, float]:
    """Return the estimated seconds of each engine, including those that cannot compute the call."""
    works = [engine.work(problem) for engine in engines.values()]
    seconds = costs_on(problem.device, problem.dtype).of(works)
    return dict(zip(engines, seconds, strict=True))


def _fastest(seconds: Mapping[str, float]) -> str:
    """Return the name of the engine with the fewest seconds."""
    best, *others = seconds
    for name in others:
        if seconds[name] < seconds[best]:
            best = name
    return best


def plan(problem: Problem, engines: Mapping[str, Engine[Any]], engine: str = "auto") -> Plan:
    """Return the estimated times of all engines, or raise ArgumentError with the reasons."""
    check_choice("engine", engine, ["auto", *engines])
    choices = []
    for name, seconds in estimates(problem, engines).items():
        reasons = tuple(engines[name].refuses(problem))
        choices.append(Choice(name, math.inf if reasons else seconds, reasons))
    note = doubt(problem.device, problem.dtype)
    ordered = Plan(tuple(sorted(choices, key=lambda choice: choice.seconds)), note)
    if engine == "auto":
        return ordered
    requested = next(choice for choice in choices if choice.engine == engine)
    if requested.reasons:
        others = "; ".join(
            f"{c.engine}: {'supports the call' if not c.reasons else ', '.join(c.reasons)}"
            for c in choices
            if c.engine != engine
        )
        raise ArgumentError(
            "engine",
            expected="an engine that supports this call",
            got=f"{engine!r}, which does not support it: {', '.join(requested.reasons)}",
            remedy=f'use engine="auto" or another engine ({others})',
        )
    others_after = (choice for choice in ordered.choices if choice.engine != engine)
    return Plan((requested, *others_after), note)
