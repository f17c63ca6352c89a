"""Graphs in code that ``torch.compile`` traces.

Imported during tracing only: ``torch.compiler.disable`` imports the compiler, which takes long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar

import torch

from edgewise._utils.dispatch_modes import while_tracing

if TYPE_CHECKING:
    from edgewise.graphs.graph import Graph, Pattern

R = TypeVar("R")

TRACED = SimpleNamespace()
"""Object that stores graphs as attributes, from which compiled code reads them."""


@while_tracing
def _bind_while_tracing(pattern: Pattern, num_targets: int, num_sources: int) -> str | None:
    """Store the graph on ``TRACED`` during tracing, and return the attribute's name, if any."""
    # A pattern that the compiled code itself creates has fields without values.
    if is_dataclass(pattern) and any(f.name not in vars(pattern) for f in fields(pattern)):
        return None
    return _store(pattern.bind(num_targets, num_sources))


@while_tracing
def _call_while_tracing(function: Callable[..., object], *args: object) -> str:
    """Store ``function(*args)`` on ``TRACED``, and return the attribute's name."""
    return _store(function(*args))


def _store(result: object) -> str:
    name = f"result_{id(result)}"
    setattr(TRACED, name, result)
    return name


def call_traced(function: Callable[..., R], *args: object) -> R:
    """Return ``function(*args)`` as a constant of code that is compiled again for other values."""
    result: R = getattr(TRACED, _call_while_tracing(function, *args))
    return result


@torch.compiler.disable(reason="create patterns outside of compiled code")  # type: ignore[untyped-decorator]
def _bind_after_a_break(pattern: Pattern, num_targets: int, num_sources: int) -> Graph:
    return pattern.bind(num_targets, num_sources)


def bind_traced(pattern: Pattern, num_targets: int, num_sources: int) -> Graph:
    """Return the graph of a pattern in code that is compiled again for each number of nodes."""
    name = _bind_while_tracing(pattern, num_targets, num_sources)
    graph: Graph = (
        _bind_after_a_break(pattern, num_targets, num_sources)
        if name is None
        else getattr(TRACED, name)
    )
    return graph
