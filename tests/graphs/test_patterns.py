"""What is special to single patterns, and what all of them share beside their edges."""

from __future__ import annotations

import itertools

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.graphs import Edges, Intervals, Pattern, Runs
from tests.errors import case, refused
from tests.graphs.algebra import BINARY, SYMBOLS
from tests.graphs.specification import PATTERNS, Spec

ALL = [spec.pattern(0, 0) for spec in PATTERNS]
CHANGED = [p.power(2) for p in ALL] + [p.transpose() for p in ALL if p] + [graphs.virtual(ALL[0])]
CHANGED += [ALL[0].with_self_loops(), ALL[2].without_self_loops(), graphs.virtual(ALL[0], 3)]


def test_parse_reads_what_repr_writes() -> None:
    for pattern in ALL + CHANGED:
        again = graphs.parse(repr(pattern))
        assert again == pattern, pattern
        assert hash(again) == hash(pattern), pattern
    for sign, left, right in itertools.product(BINARY, ALL, ALL):
        both = SYMBOLS[sign](left, right)
        assert graphs.parse(repr(both)) == both


def test_different_patterns_differ() -> None:
    every = ALL + CHANGED + [SYMBOLS[sign](ALL[2], ALL[3]) for sign in BINARY]
    for left, right in itertools.combinations(every, 2):
        assert (left == right) == (repr(left) == repr(right))


@pytest.mark.parametrize("degree", [0, 1, 3, 8, 50])
def test_random_reads_that_many_different_sources(degree: int) -> None:
    graph = graphs.random(degree, seed=3).bind(20, 30)
    assert graph.in_degree().tolist() == [min(degree, 30)] * 20
    assert not graph.has_duplicates
    assert graph.edge_index.equal(graphs.random(degree, seed=3)._build(20, 30).edge_index)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 50, 1000])
def test_an_expander_is_undirected_and_nearly_regular(n: int) -> None:
    graph = graphs.expander(6, seed=2).bind(n)
    pairs = set(map(tuple, graph.edge_index.T.tolist()))
    assert len(pairs) == graph.num_edges
    assert {(j, i) for i, j in pairs} == pairs
    assert all(i != j for i, j in pairs)
    degree = graph.in_degree()
    assert (degree <= 6).all()
    if n >= 50:
        assert degree.double().mean() > 5.5
    with refused("degree", expected="an even number", got="3", remedy="add 1"):
        graphs.expander(3)


def test_an_expander_has_a_spectral_gap_that_a_ring_has_not() -> None:
    """Alon and Boppana: no 6-regular graph has a second eigenvalue far below 2 √5 = 4.47."""
    n = 400
    matrix = graphs.expander(6, seed=1).bind(n).dense().double()
    second = torch.linalg.eigvalsh(matrix)[-2]
    assert 3.9 < second < 4.9
    ring = graphs.window(3).bind(n).without_self_loops().dense().double()
    assert torch.linalg.eigvalsh(ring)[-2] > 5.9


def test_random_depends_on_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = graphs.random(3, 5)._build(50, 50).edge_index
    torch.manual_seed(2)
    assert graphs.random(3, 5)._build(50, 50).edge_index.equal(first)
    assert not graphs.random(3, 6)._build(50, 50).edge_index.equal(first)


def test_random_is_uniform() -> None:
    """Each source is read Binomial(n, k/m) times; six standard deviations on either side."""
    n, m, k = 20_000, 10, 3
    degree = graphs.random(k, 1).bind(n, m).out_degree()
    deviation = (n * k / m * (1 - k / m)) ** 0.5
    assert (degree - n * k / m).abs().max() < 6 * deviation


@pytest.mark.parametrize("spec", PATTERNS[:8], ids=str)
def test_sequences_are_runs_in_linear_memory(spec: Spec) -> None:
    assert isinstance(spec.bind(8, 8), Intervals)
    graph = spec.bind(1_000_000, 1_000_000)
    assert "edge_index" not in graph._cache
    assert graph.num_edges >= 0


def test_a_window_within_the_past_is_one_run() -> None:
    assert isinstance((graphs.causal() & graphs.window(3)).bind(9), Intervals)
    assert isinstance((graphs.window(2, 3) & graphs.causal()).bind(9), Intervals)


def test_a_union_has_disjoint_parts_for_the_engines() -> None:
    graph = (graphs.window(1) | graphs.hubs([0]) | graphs.random(2)).bind(64)
    kinds = [type(part) for part in graph.parts]  # a list of edges for what no run can say
    assert kinds == [Intervals, Intervals, Edges]


RUNS: dict[str, Pattern] = {
    "Longformer": graphs.window(256) | graphs.hubs([0, 7, -1]),
    "BigBird": graphs.window(64) | graphs.hubs([0]) | graphs.expand(graphs.random(3), 64),
    "dilated": graphs.window(8, 4) | graphs.hubs([0]) | graphs.blocks(32),
    "causal": graphs.causal() & (graphs.window(100) | graphs.hubs([0])),
    "two dilations": graphs.window(8, 4) | graphs.window(8, 2),
    "without": graphs.window(20) - graphs.window(5) - graphs.hubs([3]),
    "holes": graphs.window(20) - graphs.window(5, 2),
    "class token": graphs.virtual(graphs.window(5) | graphs.expand(graphs.random(2), 16)),
}


@pytest.mark.parametrize("name", RUNS)
def test_compositions_of_runs_list_no_edges(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Edges, "contains", None)
    monkeypatch.setattr("edgewise.graphs.graph._list_run_edges", None)
    monkeypatch.setattr("edgewise.graphs.graph._list_interval_edges", None)
    square = name == "class token"  # which has as many sources as targets
    for graph in (RUNS[name].bind(4096), RUNS[name].bind(4096 if square else 100, 4096)):
        assert graph.num_edges > 0
        assert all(isinstance(part, Intervals | Runs) for part in graph.parts)


def test_tokens_of_a_graph_and_of_its_subgraphs_are_the_means_of_what_they_read() -> None:
    """Behind a token of the whole graph: two of subgraphs that share a node, one of none."""
    members = [[0, 1, 2], [2, 3], []]
    pattern = graphs.subgraphs(graphs.empty(), members)
    assert graphs.subgraphs(graphs.empty(), map(iter, members)) == pattern
    graph = graphs.virtual(pattern).bind(9)
    x = torch.arange(9).double().square()[:, None]
    whole, first, second, none, nodes = x[:1], x[1:2], x[2:3], x[3:4], x[4:]
    reads = [
        x,
        torch.cat([whole, first, nodes[[0, 1, 2]]]),
        torch.cat([whole, second, nodes[[2, 3]]]),
        torch.cat([whole, none]),
        *[torch.cat([whole, first])] * 2,
        torch.cat([whole, first, second]),
        torch.cat([whole, second]),
        whole,
    ]
    expected = torch.stack([each.mean(0) for each in reads])
    torch.testing.assert_close(ew.aggregate(x, graph, reduce="mean"), expected)
    both = graphs.batch([graph, graph])
    twice = ew.aggregate(torch.cat([x, 2 * x]), both, reduce="mean")
    torch.testing.assert_close(twice, torch.cat([expected, 2 * expected]))


def test_binding_is_cached() -> None:
    assert graphs.window(3).bind(11) is graphs.window(3).bind(11)
    assert graphs.window(3).bind(11) is not graphs.window(3).bind(12)
    graph = graphs.window(3).bind(11)
    for view in ("transpose", "with_self_loops", "without_self_loops", "in_degree", "out_degree"):
        if view != "in_degree":
            assert getattr(graph, view)() is getattr(graph, view)()
    assert graph.edge_index is graph.edge_index
    assert graph.bind(11) is graph


def test_moving_a_graph_changes_nothing_else() -> None:
    for spec in PATTERNS:
        n = next(n for n in (8, 6, 5, 4, 3, 2, 1, 0) if spec.matrix(n, n) is not None)
        graph = spec.bind(n, n)
        with case(spec):
            assert graph.to("cpu") is graph
            moved = graph._moved(torch.device("cpu"))
            assert moved.edge_index.equal(graph.edge_index)
            elsewhere = graph.to("meta")
            assert elsewhere.device.type == "meta"
            assert elsewhere.num_edges == graph.num_edges
            assert elsewhere is graph.to("meta")


def test_moving_a_batch_keeps_its_blocks() -> None:
    for pattern in (graphs.complete(), graphs.random(1), graphs.window(1) | graphs.hubs([0])):
        graph = graphs.batch(pattern, [2, 3])
        moved = graph._moved(torch.device("cpu"))
        assert moved.segments is not None
        assert [sizes.tolist() for sizes in moved.segments] == [[2, 3], [2, 3]]


def test_gathering_follows_the_edges() -> None:
    graph = graphs.edges(torch.tensor([[2, 0, 2], [0, 1, 0]]), (3, 2))
    sources, targets = torch.arange(3.0)[:, None], torch.arange(2.0)[:, None]
    assert graph.gather_source(sources)[:, 0].tolist() == [2, 0, 2]
    assert graph.gather_target(targets)[:, 0].tolist() == [0, 1, 0]
    heads = torch.arange(3.0).view(3, 1, 1).expand(5, 3, 2, 4)
    assert graph.gather_source(heads, dim=-3).shape == (5, 3, 2, 4)


def test_explicit_edges_stay_as_they_came() -> None:
    pairs = torch.tensor([[2, 0, 2, 1, 1], [0, 1, 0, 1, 2]], dtype=torch.int32)
    graph = graphs.edges(pairs, 3)
    assert graph.edge_index.equal(pairs.long())
    assert graph.has_duplicates
    assert graph.unique().edge_index.tolist() == [[2, 0, 1, 1], [0, 1, 1, 2]]
    assert graph.with_self_loops().edge_index.tolist() == [
        [2, 0, 2, 1, 1, 0, 2],
        [0, 1, 0, 1, 2, 0, 2],
    ]
    assert graph.without_self_loops().edge_index.tolist() == [[2, 0, 2, 1], [0, 1, 0, 2]]


def test_repr_tells_the_sizes() -> None:
    assert repr(graphs.window(2).bind(4)) == "<window(2): 4 nodes, 14 edges>"
    assert repr(graphs.complete().bind(2, 3)) == "<complete(): 2 targets, 3 sources, 6 edges>"
    assert repr(graphs.edges(torch.tensor([[0], [0]]), 2)) == "<edges: 2 nodes, 1 edges>"
