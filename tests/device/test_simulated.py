"""Graphs are made, and attention is computed, on a device that is not the CPU, without waiting.

``docs/howto/gpu.md`` says which constructions wait, and why; here they are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import call, entmax
from edgewise.engines.triton_rows.layout import TritonLayout, TritonSide
from edgewise.graphs import Graph, Pattern
from tests.device.simulated import DEVICE, WAITS
from tests.errors import refused
from tests.graphs.specification import PATTERNS, Spec

N = 6
INDEX = torch.tensor([[0, 5, 2, 2, 1, 4, 3], [1, 2, 2, 3, 0, 4, 3]])


@pytest.fixture(autouse=True)
def _unmeasured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is remembered between tests; memory of this device cannot be measured."""
    monkeypatch.setattr(graphs.graph, "held_bytes", lambda _: 0)
    graphs.graph.bound_graphs.cache_clear()
    WAITS.clear()
    yield
    graphs.graph.bound_graphs.cache_clear()


def here(index: Tensor = INDEX) -> Graph:
    graph = graphs.edges(index.to(DEVICE), N)
    WAITS.clear()
    return graph


def waited(make: Callable[[], Any]) -> list[str]:
    """What it waits for."""
    WAITS.clear()
    make()
    found = list(WAITS)
    WAITS.clear()
    return found


def numbers(made: Any) -> Any:
    """What was made, as what the CPU has."""
    if isinstance(made, Graph):
        sizes = made.num_targets, made.num_sources, made.num_edges
        segments = [x.tolist() for x in made.segments or ()]
        return sizes, made.edge_index.tolist(), segments, made.has_duplicates
    return made.tolist()


MAKE: dict[str, tuple[Callable[[Graph], Any], list[str]]] = {
    "transpose": (lambda g: g.transpose(), []),
    "in_degree": (lambda g: g.in_degree(), []),
    "out_degree": (lambda g: g.out_degree(), []),
    "gather_source": (lambda g: g.gather_source(g.in_degree()[:, None]), []),
    "incidence": (graphs.incidence, []),
    "dense": (lambda g: g.dense(), ["_unique2"]),
    # Sizes of batches are known to the host, and go to the device once.
    "batch": (lambda g: graphs.batch([g, g.transpose()]), ["copied to the device"]),
    # How many edges there are follows from numbers.
    "with_self_loops": (lambda g: g.with_self_loops(), ["index"]),
    "without_self_loops": (lambda g: g.without_self_loops(), ["index"]),
    "unique": (lambda g: g.unique(), ["_unique2"]),  # type: ignore[attr-defined]
    "power": (
        lambda g: g.power(3),
        ["_unique2", *2 * ["_local_scalar_dense", "_unique2", "index"]],
    ),
}


@pytest.mark.parametrize("name", MAKE)
def test_what_is_made_of_edges_on_a_device(name: str) -> None:
    make, waits = MAKE[name]
    graph = here()
    assert waited(lambda: make(graph)) == waits
    made = make(graph)
    assert made.device == DEVICE
    assert numbers(made) == numbers(make(graphs.edges(INDEX, N)))
    assert not [wait for wait in waited(lambda: make(graph)) if name not in ("batch", "power")]


def test_edges_are_looked_at_once() -> None:
    assert waited(lambda: graphs.edges(INDEX.to(DEVICE), N)) == [
        "copied to the device",
        "_local_scalar_dense",
    ]
    bad = "target 3 at edge 3"
    with refused("edge_index", expected="targets from 0 to 2", got=bad, remedy="number the nodes"):
        graphs.edges(INDEX.to(DEVICE), (N, 3))


COMPOSE: dict[str, Callable[[Graph], Pattern]] = {
    "union": lambda g: g | graphs.window(1),
    "union, from the right": lambda g: graphs.window(1) | g,
    "intersection": lambda g: g & graphs.causal(),
    "difference": lambda g: g - graphs.window(0),
    "nothing is left": lambda g: g - graphs.complete(),
    "difference from runs": lambda g: graphs.window(2).bind(N).to(g.device) - g,
    "of two graphs": lambda g: g | g.transpose(),
    "virtual": lambda g: graphs.virtual(g, 2).bind(N + 2),
    "expand": lambda g: graphs.expand(g, 2).bind(2 * N),
    "batch of runs": lambda g: graphs.batch([graphs.causal().bind(3).to(g.device)] * 2),
    "batch of both": lambda g: graphs.batch([g, graphs.causal().bind(3).to(g.device)]),
}


@pytest.mark.parametrize("name", COMPOSE)
def test_compositions_stay_where_the_graph_is(name: str) -> None:
    graph = here()
    assert "copied to the host" not in waited(lambda: COMPOSE[name](graph))
    made = COMPOSE[name](graph)
    assert isinstance(made, Graph)
    assert made.device == DEVICE
    assert numbers(made) == numbers(COMPOSE[name](graphs.edges(INDEX, N)))


def test_graphs_of_two_devices_do_not_mix() -> None:
    other = graphs.edges(INDEX, N)
    for make in (lambda: here() | other, lambda: graphs.batch([here(), other])):
        with refused("graph", expected="graphs on one device", got=f"{DEVICE}", remedy=".to("):
            make()


@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_every_pattern_is_the_same_there(spec: Spec) -> None:
    """It is made of sizes on the host, and copied once; its edges are listed on the device."""
    for sizes in ((5, 5), (6, 6), (3, 5)):
        if spec.matrix(*sizes) is None:
            continue
        expected = spec.bind(*sizes)
        WAITS.clear()
        graph = expected.to(DEVICE)
        graph.edge_index, graph.in_degree(), graph.transpose().in_degree()
        assert "copied to the host" not in WAITS
        assert graph.device == DEVICE
        assert numbers(graph) == numbers(expected)
        x = torch.randn(2, max(sizes), 1, 3)
        query, key = (x[:, :n].to(DEVICE) for n in sizes)
        got = ew.attend(query, key, key, graph).tolist()
        torch.testing.assert_close(
            torch.tensor(got), ew.attend(x[:, : sizes[0]], *[x[:, : sizes[1]]] * 2, expected)
        )


def test_sorting_waits_once_a_side() -> None:
    graph = here()
    layout = TritonLayout(graph.source, graph.target, N, N)
    assert WAITS == ["tolist"]
    assert waited(lambda: layout.by_source) == ["tolist"]
    assert waited(lambda: layout.by_source) == []
    on_cpu = TritonLayout(*INDEX, N, N)
    for side, other in ((layout.by_target, on_cpu.by_target), (layout.by_source, on_cpu.by_source)):
        assert isinstance(side, TritonSide)
        assert isinstance(other, TritonSide)
        for name in ("short", "long", "merges", "row"):
            made = getattr(side, name)
            assert made.device == DEVICE
            assert made.tolist() == getattr(other, name).tolist()


GRAPHS: dict[str, Callable[[], Graph]] = {
    "edges": lambda: here(INDEX[:, [0, 1, 3, 5]]),
    "window": lambda: graphs.window(1).bind(N).to(DEVICE),
    "causal": lambda: graphs.causal().bind(N).to(DEVICE),
    "complete": lambda: graphs.complete().bind(N).to(DEVICE),
    "packed": lambda: graphs.batch(graphs.causal(), [2, 4]).to(DEVICE),
    "union": lambda: (graphs.window(1) | graphs.hubs([0])).bind(N).to(DEVICE),
}
TERMS = ("plain", "bias", "table", "gain", "additive", "projected", "dropout", "entmax")


def attention(graph: Graph, terms: str, engine: str) -> Callable[[], object]:
    """A step, forward and backward."""
    edges, heads = graph.num_edges, 2
    leaves = [torch.randn(N, heads, 4).to(DEVICE).requires_grad_() for _ in range(3)]

    def leaf(*shape: int) -> Tensor:
        leaves.append(torch.randn(shape).to(DEVICE).requires_grad_())
        return leaves[-1]

    given: dict[str, Any] = {}
    if terms in ("bias", "gain"):
        given[terms] = leaf(edges, heads)
    elif terms == "table":
        given["bias"] = ew.TableBias((torch.arange(edges) % 3).to(DEVICE), leaf(3, heads))
    elif terms == "additive":
        given["score"] = ew.Additive("tanh", leaf(heads, 4))
    elif terms == "projected":
        given["edge_key"] = ew.Projected(leaf(edges, 5), leaf(heads, 4, 5))
    elif terms == "dropout":
        given["dropout"] = 0.5
    elif terms == "entmax":
        given["normaliser"] = "entmax"

    def step() -> object:
        out = ew.attend(*leaves[:3], graph, engine=engine, **given)
        total = ew.aggregate(out, graph, engine=engine, reduce="mean")
        return torch.autograd.grad(total, leaves, torch.ones_like(total))

    return step


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("engine", ["reference", "dense", "auto"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_warm_step_waits_for_nothing(
    name: str, engine: str, terms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = GRAPHS[name]()
    if engine == "dense" and terms == "projected":
        engine = "auto"  # which it refuses
    step = attention(graph, terms, engine)
    # These tensors are of a class of their own, as which nobody would look at them anyway.
    for module in (call, entmax):
        monkeypatch.setattr(module, "is_tracing", lambda *_: False)
    step()
    assert waited(step) == []


def test_this_device_would_show_what_waits() -> None:
    x = torch.ones(3).to(DEVICE)
    assert waited(lambda: x.sum().item()) == ["_local_scalar_dense"]
    assert waited(lambda: bool(x.any())) == ["_local_scalar_dense"]
    assert waited(lambda: x[x > 0]) == ["index"]
    assert waited(x.nonzero) == ["nonzero"]
    assert waited(x.cpu) == ["copied to the host"]
    assert waited(lambda: torch.equal(x, x)) == ["equal"]
    assert waited(lambda: torch.tensor([1], device=DEVICE)) == ["copied to the device"]
    with pytest.raises(RuntimeError, match="and on cpu"):
        x + torch.ones(3)
