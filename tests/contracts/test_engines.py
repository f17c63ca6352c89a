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
PATTERN = pytest.mark.parametrize("name", EXAMPLES)
ENGINE = pytest.mark.parametrize("engine", [*ENGINES, "auto"])


RUNS = {"blocks", "causal", "complete", "empty", "expand", "hubs", "virtual", "window"}
"""Patterns whose targets read runs of sources."""


def attend(*given: Any, engine: str, **options: Any) -> Tensor:
    """``ew.attend``; the test ends here if the engine cannot serve, which it must then say."""
    choices = {choice.engine: choice for choice in ew.explain_plan(*given, **options).choices}
    if engine == "auto" or not choices[engine].reasons:
        return ew.attend(*given, engine=engine, **options)
    with pytest.raises(ew.ArgumentError, match=f"{engine!r}, which does not"):
        ew.attend(*given, engine=engine, **options)
    pytest.skip(choices[engine].reasons[0])


@pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
@PATTERN
def test_tiles_serve_runs_of_sources(name: str) -> None:
    """And every other engine serves every pattern, unless an edge is there twice."""
    x = torch.randn(N, 2, 4)
    refusing = {c.engine for c in ew.explain_plan(x, x, x, EXAMPLES[name]).choices if c.reasons}
    assert refusing == (set() if name in RUNS else {"tiles"})


def test_every_listed_pattern_has_an_example() -> None:
    assert set(EXAMPLES) == set(graphs.PATTERNS)
    for name, pattern in EXAMPLES.items():
        assert type(pattern) is graphs.PATTERNS[name]


@PATTERN
def test_a_pattern_is_named_as_it_is_listed_and_documented(name: str) -> None:
    pattern = EXAMPLES[name]
    assert repr(pattern).startswith(f"{name}(")
    assert graphs.parse(repr(pattern)) == pattern
    assert pattern.__doc__


@ENGINE
@PATTERN
def test_engines_agree(name: str, engine: str) -> None:
    query, key, value = torch.randn(3, 2, N, 2, 5, dtype=torch.float64)
    graph = EXAMPLES[name].bind(N)
    bias = torch.randn(graph.num_edges, 2, dtype=torch.float64)
    for options in ({}, {"bias": bias}, {"gain": bias}):
        out = attend(query, key, value, graph, engine=engine, **options)
        expected = ew.attend(query, key, value, graph, engine="reference", **options)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


@ENGINE
@PATTERN
def test_gradients_are_finite_and_stay_within_the_edges(name: str, engine: str) -> None:
    graph = EXAMPLES[name].bind(N)
    dense = graph.dense()
    for target in range(N):
        value = torch.randn(N, 1, 2, requires_grad=True)
        key = torch.randn(N, 1, 2, requires_grad=True)
        out = attend(key.detach(), key, value, graph, engine=engine)[target].square().sum()
        for gradient in torch.autograd.grad(out, (key, value)):
            assert gradient.isfinite().all()
            reached = gradient.abs().sum((1, 2)) > 0
            assert not (reached & ~dense[target]).any()


@ENGINE
@PATTERN
def test_no_input_is_changed(name: str, engine: str) -> None:
    given = [torch.randn(N, 2, 4) for _ in range(3)]
    before = [x.clone() for x in given]
    attend(*given, EXAMPLES[name], engine=engine)
    assert all(x.equal(y) for x, y in zip(given, before, strict=True))


@ENGINE
@PATTERN
def test_the_result_is_the_same_every_time(name: str, engine: str) -> None:
    runs = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(N, 2, 4, generator=generator, requires_grad=True)
        out = attend(x, x, x, EXAMPLES[name], engine=engine)
        runs.append((out, *torch.autograd.grad(out.square().sum(), x)))
    assert all(a.equal(b) for a, b in zip(*runs, strict=True))


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_named_as_it_is_listed_and_documented(name: str) -> None:
    engine = ENGINES[name]
    assert engine.name == name
    assert type(engine).__doc__
