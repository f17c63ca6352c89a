"""The planner explains itself, and a named engine is never replaced."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.attention.attend import cached_choice
from edgewise.engines import ENGINES
from edgewise.engines import plan as planner
from edgewise.engines.call import Problem
from edgewise.engines.costs import COSTS, doubt
from edgewise.engines.layouts import graph_facts
from edgewise.engines.native import library
from edgewise.engines.plan import Choice, Plan

SPARSE = "reference" if library.MISSING else "rows"
RUNS = "dense" if library.MISSING else "tiles"
COPIES = graphs.edges(torch.tensor([[0, 0], [1, 1]]), 4)


def explain(graph: graphs.Pattern, n: int = 4, **options: Any) -> Plan:
    x = torch.randn(n, 2, 8)
    return ew.explain_plan(x, x, x, graph, **options)


def test_it_prints_an_estimate_for_each_engine() -> None:
    lines = str(explain(graphs.complete())).splitlines()
    assert len(lines) == len(ENGINES)
    assert lines[0].startswith("-> ")
    assert all("about" in line and line.endswith(" ms") for line in lines)
    assert {line[3:].split()[0] for line in lines} == set(ENGINES)


def test_it_prints_the_reasons_against() -> None:
    plan = explain(COPIES, edge_key=torch.zeros(2, 2, 8))
    assert plan.engine not in ("dense", "tiles")
    lines = {line.split()[0]: line for line in str(plan).splitlines()[-2:]}
    assert "occurs twice" in lines["dense"]
    assert "edge_key and edge_value" in lines["dense"]
    assert "neither gain nor edge vectors" in lines["tiles"]
    assert "sources of some targets are not ranges" in lines["tiles"]
    for choice in plan.choices[-2:]:
        assert choice == Choice(choice.engine, float("inf"), choice.reasons)


def test_too_many_pairs_for_a_matrix() -> None:
    n = 40_000
    pattern = graphs.random(1)
    assert "1,600,000,000 pairs" in str(explain(pattern, n))
    for full in (graphs.complete(), graphs.causal()):  # needs no mask, so no memory
        assert "1,600,000,000 pairs" not in str(explain(full, n))
    # ... unless the scores themselves must be there.
    assert "1,600,000,000 pairs" in str(explain(graphs.causal(), n, dropout=0.5))


@pytest.mark.parametrize("name", ENGINES)
def test_a_named_engine_runs_and_no_other(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    for other, engine in ENGINES.items():
        attend = engine.attend
        monkeypatch.setattr(
            type(engine),
            "attend",
            lambda _, *args, attend=attend, other=other: ran.append(other) or attend(*args),
        )
    monkeypatch.setattr(  # the named one is the dearest
        planner, "estimates", lambda _, engines: {other: 1.0 + (other == name) for other in engines}
    )
    x = torch.randn(5, 2, 8)
    for graph in (graphs.complete(), graphs.window(1) | graphs.hubs([0])):
        ran.clear()
        ew.attend(x, x, x, graph, engine=name)
        assert ran == [name]
        ew.attend(x, x, x, graph)
        assert ran[1] != name


@pytest.mark.parametrize("run", [ew.attend, ew.attend_with_lse])
def test_a_named_engine_that_cannot_serve_raises(run: Any) -> None:
    x = torch.randn(4, 2, 8)
    with pytest.raises(ew.ArgumentError, match=r"'dense', which does not.*reference: supports"):
        run(x, x, x, COPIES, engine="dense")
    with pytest.raises(ew.ArgumentError, match="did you mean 'reference'"):
        run(x, x, x, COPIES, engine="refrence")


def test_dense_refuses_copies_of_an_edge() -> None:
    for graph in (COPIES, graphs.virtual(COPIES).bind(5), graphs.batch([COPIES, COPIES])):
        reasons = {
            choice.engine: choice.reasons for choice in explain(graph, graph.num_targets).choices
        }
        assert any("occurs twice" in reason for reason in reasons["dense"])


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_dense_refuses_extremes(reduce: ew.Reduce) -> None:
    x = torch.randn(4, 2, 8)
    with pytest.raises(ew.ArgumentError, match=f"cannot reduce by {reduce}"):
        ew.aggregate(x, graphs.complete(), reduce=reduce, engine="dense")
    extreme = getattr(x, f"a{reduce}")(0)
    assert ew.aggregate(x, graphs.complete(), reduce=reduce).equal(extreme.expand(4, 2, 8))


# Where the better engine is several times faster, on any machine.
OBVIOUS = {
    "complete": (graphs.complete(), 256, {}, RUNS),
    "causal": (graphs.causal(), 256, {}, RUNS),
    "window": (graphs.window(8), 2048, {}, RUNS if RUNS == "tiles" else "reference"),
    "sparse": (graphs.random(4), 2048, {}, SPARSE),
    "sparse GAT": (
        graphs.random(4),
        1024,
        {"score": ew.Additive("tanh", torch.ones(2, 8))},
        SPARSE,
    ),
    "entmax": (graphs.complete(), 256, {"normaliser": "entmax"}, "dense"),
}


@pytest.mark.parametrize(("graph", "n", "options", "best"), OBVIOUS.values(), ids=OBVIOUS)
def test_obvious_choices(graph: graphs.Pattern, n: int, options: Any, best: str) -> None:
    assert explain(graph, n, **options).engine == best


def test_a_packed_batch_is_charged_for_its_blocks_alone() -> None:
    sizes = [8] * 128
    packed = graphs.batch(graphs.complete(), sizes)
    whole = graphs.edges(packed.edge_index, packed.num_targets)
    assert explain(packed, 1024).engine == RUNS
    blocks, square = (
        next(c.seconds for c in explain(g, 1024).choices if c.engine == "dense")
        for g in (packed, whole)
    )
    assert square > 20 * blocks


@pytest.mark.parametrize(("part", "ran"), [(20e-6, "whole"), (20e-9, "parts")])
def test_a_union_is_split_only_where_that_pays_for_the_merge(
    part: float, ran: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parts of 20 µs are less than a whole of 120 µs, but merging them is not free."""
    monkeypatch.setattr(
        planner,
        "estimates",
        lambda problem, engines: dict.fromkeys(engines, part if problem.lse else 120e-6),
    )
    rate = replace(COSTS["cpu"], seconds={"merge": {"call": 100e-6, "element": 0.0}})
    monkeypatch.setitem(COSTS, "cpu", rate)
    forgotten = "attend" if ran == "parts" else "attend_with_lse"
    for engine in (type(engine) for engine in ENGINES.values()):
        other = engine.attend_with_lse
        if ran == "whole":
            monkeypatch.setattr(
                engine, "attend", lambda self, *args, other=other: other(self, *args)[0]
            )
        monkeypatch.setattr(engine, forgotten, None)
    x = torch.randn(4, 1, 2)
    ew.attend(x, x, x, graphs.window(1) | graphs.hubs([0]))  # without what was forgotten


def split_union(monkeypatch: pytest.MonkeyPatch) -> graphs.Graph:
    """A union whose parts are estimated to be faster than the union."""
    monkeypatch.setattr(
        planner, "estimates", lambda problem, engines: dict.fromkeys(engines, 1.0 - problem.lse)
    )
    return (graphs.window(1) | graphs.hubs([0]) | graphs.random(2)).bind(12)


@pytest.mark.parametrize("bias", [-1e8, -1e4, 1e8])
def test_a_union_is_not_split_if_the_merge_would_lose_the_sums(
    bias: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log-sum-exp of -1e8 does not tell a part with 3 edges from a part with 1 edge."""
    graph = split_union(monkeypatch)
    x = torch.ones(12, 2, 4) * torch.arange(12)[:, None, None]
    terms = {"score": None, "bias": torch.full((graph.num_edges, 1), bias)}
    mean = ew.aggregate(x, graph, reduce="mean")
    torch.testing.assert_close(ew.attend(x, x, x, graph, **terms), mean)
    assert not ew.explain_plan(x, x, x, graph, **terms).parts


@pytest.mark.parametrize("kind", ["table", "offsets", "full"])
def test_each_part_of_a_split_union_gets_the_terms_of_its_own_edges(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bias and a gain that differ on every edge, so that those of other edges give other sums."""
    graph = split_union(monkeypatch)
    assert len(graph.parts) == 3
    edges, x = graph.num_edges, torch.randn(12, 2, 4, dtype=torch.float64)
    table = torch.randn(edges, 2, dtype=torch.float64)
    order = torch.randperm(edges)
    bias: Any = table[order]
    if kind == "table":
        bias = ew.TableBias(order, table)
    elif kind == "offsets":
        place = torch.arange(12)
        bias = ew.OffsetBias(ew.Offsets(place - 11, place, torch.arange(23), graph), table[:23])
    gain = ew.TableBias(order.flip(0), table) if kind == "table" else table
    terms = {"bias": bias, "gain": gain}
    split = ew.attend(x, x, x, graph, **terms)
    whole = ew.attend(x, x, x, graph, **terms, engine="reference")
    torch.testing.assert_close(split, whole)


def test_it_prints_the_parts_of_a_union_if_they_run_separately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    union = graphs.window(1) | graphs.random(2)
    monkeypatch.setattr(planner, "estimates", lambda _, engines: dict.fromkeys(engines, 1.0))
    assert not explain(union, 16).parts  # two parts take longer than one pass
    cached_choice.cache_clear()
    monkeypatch.setattr(
        planner, "estimates", lambda problem, engines: dict.fromkeys(engines, -float(problem.lse))
    )
    plan = explain(union, 16)
    lines = str(plan).splitlines()
    assert [line for line in lines if line.startswith("->")] == lines[:2]
    assert lines[0].endswith("for the part <window(1): 16 nodes, 46 edges>")
    assert len(lines) == 2 + len(ENGINES)
    assert not explain(union, 16, normaliser="sparsemax").parts


def test_it_says_where_estimates_were_not_measured() -> None:
    graph = graphs.complete()
    x = torch.randn(4, 2, 8)
    assert not ew.explain_plan(x, x, x, graph).note
    given = x.to("meta")
    assert "no costs are known for meta" in str(ew.explain_plan(given, given, given, graph))
    assert "the roofline of an H200" in doubt(torch.device("cuda"), torch.float32)


def test_without_costs_there_is_no_estimate() -> None:
    """As of FlexAttention on a CPU, with EDGEWISE_FLEX=1."""
    shown = str(Plan((Choice("rows", 1e-3), Choice("tiles", math.inf))))
    assert "-> rows       about 1 ms" in shown
    assert "   tiles      supports the call, but has no known costs" in shown


def test_the_table_has_a_cost_for_all_that_engines_do() -> None:
    """Estimates are finite where an engine can serve, and grow with what there is to do."""
    calls: list[dict[str, Any]] = [
        {},
        {"bias": "edges"},
        {"bias": "table"},
        {"gain": "edges"},
        {"dropout": 0.5},
        {"normaliser": "entmax"},
        {"score": ew.Additive(weight=torch.ones(2, 8))},
        {"score": None},
    ]
    for pattern in (graphs.causal(), graphs.window(3), graphs.random(3)):
        for options in calls:
            small, large = (
                explain(pattern, n, **{k: given(v, pattern, n) for k, v in options.items()})
                for n in (16, 512)
            )
            for name in ENGINES:
                a, b = (next(c for c in x.choices if c.engine == name) for x in (small, large))
                assert bool(a.reasons) == bool(b.reasons)
                assert a.reasons or 0 < a.seconds < b.seconds < math.inf


def given(option: Any, pattern: graphs.Pattern, n: int) -> Any:
    """An edge term where one is asked for."""
    edges = pattern.bind(n).num_edges
    if option == "edges":
        return torch.zeros(edges, 2)
    if option == "table":
        return ew.TableBias(torch.zeros(edges, dtype=torch.long), torch.zeros(1, 2))
    return option


@pytest.mark.parametrize("reduce", ["sum", "max"])
def test_every_device_of_the_table_has_costs_for_sums(reduce: ew.Reduce) -> None:
    facts = graph_facts(graphs.random(2).bind(6))
    for kind, dtype in itertools.product(("cpu", "cuda", "mps"), (torch.float32, torch.bfloat16)):
        problem = Problem(
            *facts,
            operation="aggregate",
            batch=1,
            heads=2,
            width=0,
            value_width=8,
            device=torch.device(kind),
            dtype=dtype,
            reduce=reduce,
        )
        found = planner.estimates(problem, ENGINES)
        assert all(0 < found[name] < math.inf for name in ENGINES if name != "tiles")
