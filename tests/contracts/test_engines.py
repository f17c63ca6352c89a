"""Every listed pattern on every listed engine: what is promised of them all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.engines.native import library
from edgewise.graphs import Pattern
from tests.errors import case

EXAMPLES: dict[str, Pattern] = {
    "blocks": graphs.blocks(3),
    "causal": graphs.causal(),
    "complete": graphs.complete(),
    "empty": graphs.empty(),
    "expand": graphs.expand(graphs.window(1), 3),
    "grid": graphs.grid(2, 4, 8),
    "hubs": graphs.hubs([0, -1]),
    "expander": graphs.expander(4),
    "random": graphs.random(3),
    "subgraphs": graphs.subgraphs(graphs.window(1), [[0, 1], [1, 4]]),
    "tree": graphs.tree([-1, 0, 0, 1, 1, 2, 2, 3]),
    "virtual": graphs.virtual(graphs.window(1)),
    "window": graphs.window(2),
}
N = 8
RUNS = {"blocks", "causal", "complete", "empty", "expand", "hubs", "virtual", "window"}
"""Patterns whose targets read runs of sources."""


def attend(*given: Any, engine: str, **options: Any) -> Tensor | None:
    """``ew.attend``, or nothing if the engine cannot serve, which it must then say."""
    choices = {choice.engine: choice for choice in ew.explain_plan(*given, **options).choices}
    if engine == "auto" or not choices[engine].reasons:
        return ew.attend(*given, engine=engine, **options)
    with pytest.raises(ew.ArgumentError, match=f"{engine!r}, which does not"):
        ew.attend(*given, engine=engine, **options)
    return None


@pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
def test_tiles_serve_runs_of_sources() -> None:
    """And every other engine serves every pattern, unless an edge is there twice."""
    x = torch.randn(N, 2, 4)
    for name, pattern in EXAMPLES.items():
        with case(name):
            refusing = {c.engine for c in ew.explain_plan(x, x, x, pattern).choices if c.reasons}
            assert refusing == (set() if name in RUNS else {"tiles"})


def test_every_listed_pattern_has_an_example() -> None:
    """Under its name, with a docstring, and written as it is read."""
    assert set(EXAMPLES) == set(graphs.PATTERNS)
    for name, pattern in EXAMPLES.items():
        assert type(pattern) is graphs.PATTERNS[name]
        assert repr(pattern).startswith(f"{name}(")
        assert graphs.parse(repr(pattern)) == pattern
        assert pattern.__doc__


@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
def test_no_input_is_changed_and_the_result_is_the_same_every_time(engine: str) -> None:
    """That it is right is tested in ``tests/engines/test_cases.py``."""
    for name, pattern in EXAMPLES.items():
        x = torch.randn(N, 2, 4, requires_grad=True)
        before, found = x.detach().clone(), []
        for _ in range(2):
            with case(name):
                out = attend(x, x, x, pattern, engine=engine)
            if out is not None:
                found.append((out, *torch.autograd.grad(out.square().sum(), x)))
        assert all(a.equal(b) for a, b in zip(*found, strict=True))
        assert x.equal(before)


def test_an_engine_is_named_as_it_is_listed_and_documented() -> None:
    for name, engine in ENGINES.items():
        assert engine.name == name
        assert type(engine).__doc__
