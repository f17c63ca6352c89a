"""What is kept: of the graphs that patterns were bound to, and not of what a caller changes."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.engines.native import library
from edgewise.graphs import Graph
from edgewise.graphs.graph import MOST_BYTES, MOST_GRAPHS, BoundGraphs, bound_graphs, held_bytes
from tests.contracts.test_modes import PATTERNS


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    bound_graphs.cache_clear()
    yield
    bound_graphs.cache_clear()


def test_binding_again_gives_the_same_graph() -> None:
    pattern = graphs.causal() | graphs.hubs([0])
    graph = pattern.bind(9)
    assert (graphs.causal() | graphs.hubs([0])).bind(9) is graph
    assert pattern.bind(9, 9) is graph
    assert pattern.bind(8) is not graph
    for n in range(1, 30):
        pattern.bind(n, n)
    assert pattern.bind(9) is graph, "graphs this small are all kept"


def test_many_lengths_hold_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound_graphs, "most_bytes", MOST_BYTES // 8)
    lengths = range(300, 332)
    for n in lengths:
        x = torch.randn(n, 1, 1)
        ew.attention_weights(x, x, graphs.causal())
    newest = graphs.causal().bind(lengths[-1])
    assert held_bytes(newest) > 16 * newest.num_edges, "the list of edges is part of it"
    assert 32 * held_bytes(newest) > 2 * bound_graphs.most_bytes, "all of them would be too many"
    assert bound_graphs.held() <= bound_graphs.most_bytes + held_bytes(newest)


def test_the_graph_used_longest_ago_goes_first() -> None:
    one = held_bytes(graphs.random(4)._build(1000, 1000))
    bind = BoundGraphs(most_bytes=int(2.5 * one))
    first, second = bind(graphs.random(4), 1000, 1000), bind(graphs.random(4, 1), 1000, 1000)
    assert bind(graphs.random(4), 1000, 1000) is first
    bind(graphs.random(4, 2), 1000, 1000)
    bind(graphs.random(4), 1000, 1000)
    bind(graphs.random(4, 3), 1000, 1000)
    assert bind(graphs.random(4), 1000, 1000) is first
    assert bind(graphs.random(4, 1), 1000, 1000) is not second


def test_a_graph_is_measured_as_it_has_grown() -> None:
    bind = BoundGraphs(most_bytes=100_000)
    first = bind(graphs.causal(), 200, 200)
    bind(graphs.causal(), 201, 201)
    assert bind(graphs.causal(), 200, 200) is first
    _ = first.edge_index
    bind(graphs.causal(), 202, 202)
    assert bind(graphs.causal(), 200, 200) is not first


def test_one_graph_larger_than_the_limit_is_kept_while_it_is_in_use() -> None:
    bind = BoundGraphs(most_bytes=1)
    graph = bind(graphs.random(4), 100, 100)
    assert bind(graphs.random(4), 100, 100) is graph


def test_there_are_never_too_many() -> None:
    for n in range(3 * MOST_GRAPHS):
        graphs.causal().bind(n)
    assert len(bound_graphs._entries) == MOST_GRAPHS


def test_shared_memory_counts_once() -> None:
    x = torch.zeros(100)
    assert held_bytes([x, x[:3], {"again": (x, x.clone())}]) == 2 * 400


def matrix_of(pairs: Tensor) -> Any:
    scipy = pytest.importorskip("scipy.sparse")
    ones = np.ones(pairs.shape[1])
    return scipy.coo_array((ones, (pairs[1].numpy(), pairs[0].numpy())), shape=(5, 5))


PAIRS = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
ALIASES: dict[str, Callable[[Tensor], Graph]] = {
    "edges": lambda pairs: graphs.edges(pairs, 5),
    "from_numpy": lambda pairs: graphs.edges(torch.from_numpy(pairs.numpy()), 5),
    "batch": lambda pairs: graphs.batch([graphs.edges(pairs, 5)]),
    "union": lambda pairs: graphs.edges(pairs, 5) | graphs.window(0),
    "intervals": lambda pairs: graphs.Intervals(pairs[0], pairs[1], 5),
    "scipy": lambda pairs: graphs.from_scipy(matrix_of(pairs)),
    "membership": lambda pairs: graphs.membership(pairs[1]),
}


@pytest.mark.parametrize("name", ALIASES)
def test_writing_into_what_a_graph_was_made_of_changes_nothing(name: str) -> None:
    pairs = PAIRS.clone()
    graph = ALIASES[name](pairs)
    before = graph.dense().clone()
    pairs.fill_(0)
    assert torch.equal(graph.dense(), before)
    assert torch.equal(graph.edge_index[1].bincount(minlength=graph.num_targets), before.sum(1))


def test_a_pyg_graph_is_copied() -> None:
    data = pytest.importorskip("torch_geometric.data").Data(edge_index=PAIRS.clone(), num_nodes=5)
    graph = graphs.from_pyg(data)
    data.edge_index.fill_(0)
    assert torch.equal(graph.edge_index, PAIRS)


def test_a_dense_matrix_is_read_once() -> None:
    matrix = torch.ones(3, 3, dtype=torch.bool)
    graph = graphs.from_dense(matrix)
    matrix.fill_(False)
    assert graph.dense().all()


@pytest.mark.slow(after=2)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_graph_in_use_can_be_saved(engine: str) -> None:
    """What is derived of it has functions, addresses and other devices, and stays here."""
    if library.MISSING and engine in ("rows", "tiles"):
        pytest.skip(library.MISSING)
    graph = graphs.Intervals(torch.zeros(9, dtype=torch.long), torch.arange(1, 10), 9)
    x = torch.randn(9, 2, 8)
    expected = ew.attend(x, x, x, graph, engine=engine)
    graph.to("meta")
    torch.compile(lambda: ew.attend(x, x, x, graph), backend="eager", fullgraph=True)()
    for read in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph), copy.copy(graph)):
        assert set(vars(read)) == set(vars(graphs.Intervals(graph.start, graph.stop, 9)))
        assert not read._cache
        torch.testing.assert_close(ew.attend(x, x, x, read, engine=engine), expected)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_graph_loads_with_weights_only(name: str) -> None:
    graph = PATTERNS[name]()
    x = torch.randn(max(graph.num_targets, graph.num_sources), 1, 2)
    query, key = x[: graph.num_targets], x[: graph.num_sources]
    expected = ew.attend(query, key, key, graph)  # which fills the cache of the graph
    file = io.BytesIO()
    torch.save({"graph": graph, "pattern": graphs.window(1) | graphs.hubs([0])}, file)
    file.seek(0)
    copies = torch.load(file, weights_only=True)
    assert type(copies["graph"]) is type(graph)
    assert copies["graph"].edge_index.equal(graph.edge_index)
    assert torch.equal(ew.attend(query, key, key, copies["graph"]), expected)
    assert repr(copies["pattern"]) == "(window(1) | hubs([0]))"


def test_only_patterns_of_the_package_load_with_weights_only() -> None:
    """Those of a user may run any code when they are created, so the user adds them by name."""
    file = io.BytesIO()
    torch.save(Nothing(), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        torch.load(file, weights_only=True)


class Nothing(graphs.Pattern):
    def _build(self, num_targets: int, num_sources: int) -> Graph:
        return graphs.empty().bind(num_targets, num_sources)
