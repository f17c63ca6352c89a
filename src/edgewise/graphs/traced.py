"""Binding patterns within code that ``torch.compile`` traces; imported by that alone.

``torch.compiler.disable`` imports the compiler, which takes longer than all the rest of PyTorch.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING

import torch

from edgewise.dispatch_modes import while_tracing
from edgewise.graphs.bound import bound_graphs

if TYPE_CHECKING:
    from edgewise.graphs.graph import Graph, Pattern


class Traced:
    """The graphs that compiled code found patterns bound to, each an attribute."""


TRACED = Traced()


@while_tracing
def _bind_while_tracing(pattern: Pattern, num_targets: int, num_sources: int) -> str | None:
    """Bind now, while ``torch.compile`` traces, and tell the name in ``TRACED``.

    A pattern that is made in the code itself does not exist yet, and neither do its fields: None.
    """
    if is_dataclass(pattern) and any(f.name not in vars(pattern) for f in fields(pattern)):
        return None
    graph = bound_graphs(pattern, num_targets, num_sources)
    name = f"graph_{id(graph)}"
    setattr(TRACED, name, graph)
    return name


def _bind_eagerly(pattern: Pattern, num_targets: int, num_sources: int) -> Graph:
    return bound_graphs(pattern, num_targets, num_sources)


_bind_after_a_break = torch.compiler.disable(
    _bind_eagerly, reason="make patterns outside of compiled code, which then binds them"
)


def bind_traced(pattern: Pattern, num_targets: int, num_sources: int) -> Graph:
    """Code is compiled for each of the sizes, as graphs have no others than numbers."""
    name = _bind_while_tracing(pattern, num_targets, num_sources)
    graph: Graph = (
        _bind_after_a_break(pattern, num_targets, num_sources)
        if name is None
        else getattr(TRACED, name)
    )
    return graph
