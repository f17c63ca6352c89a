"""Graphs from PyTorch Geometric, SciPy, NetworkX and boolean matrices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from edgewise import graphs
from tests.errors import refused
from tests.graphs.specification import PATTERNS, Spec
from tests.graphs.views import check_graph

PAIRS = torch.tensor([[2, 0, 2, 1, 1], [0, 1, 0, 1, 2]])


@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_from_dense_is_the_inverse_of_dense(spec: Spec) -> None:
    for sizes in [(0, 0), (1, 1), (5, 5), (6, 6), (2, 5), (0, 3)]:
        matrix = spec.matrix(*sizes)
        if matrix is not None:
            check_graph(graphs.from_dense(spec.bind(*sizes).dense()), matrix)


def test_from_pyg_data() -> None:
    data = pytest.importorskip("torch_geometric.data")
    graph = graphs.from_pyg(data.Data(x=torch.zeros(4, 1), edge_index=PAIRS))
    assert graph.num_targets == graph.num_sources == 4
    assert graph.edge_index.equal(PAIRS)
    packed = data.Batch.from_data_list([data.Data(x=torch.zeros(3, 1), edge_index=PAIRS)] * 2)
    assert graphs.from_pyg(packed).num_targets == 6


@pytest.mark.parametrize("size", [(3, 3), (4, 3)], ids=str)
def test_from_pyg_edge_index(size: tuple[int, int]) -> None:
    pyg = pytest.importorskip("torch_geometric")
    graph = graphs.from_pyg(pyg.EdgeIndex(PAIRS, sparse_size=size))
    assert (graph.num_sources, graph.num_targets) == size
    assert graph.edge_index.equal(PAIRS)
    assert type(graph.edge_index) is torch.Tensor
    assert graph.edge_index.sort().values.shape == (2, 5)
    assert type(graphs.edges(pyg.EdgeIndex(PAIRS), 3).edge_index) is torch.Tensor


@pytest.mark.parametrize(
    "kind", ["coo_array", "csr_array", "csc_array", "coo_matrix", "csr_matrix"]
)
def test_from_scipy(kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = torch.tensor([[0, 2, 0, 1], [0, 0, 0, 0], [1, 0, 0, 3]])
    graph = graphs.from_scipy(getattr(sparse, kind)(matrix.numpy()))
    check_graph(graph, matrix != 0)


def test_from_scipy_read_only() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.coo_array(torch.eye(3).numpy())
    for numbers in matrix.coords:
        numbers.flags.writeable = False
    assert graphs.from_scipy(matrix).num_edges == 3


def networkx_cases() -> list[Any]:
    networkx = pytest.importorskip("networkx")
    links = [("a", "b"), ("b", "c"), ("c", "c")]
    both_ways = [[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]]
    twice = [[0, 0, 1, 1, 1, 2, 2], [1, 1, 0, 0, 2, 1, 2]]
    return [
        (networkx.DiGraph(links), [[0, 1, 2], [1, 2, 2]]),
        (networkx.Graph(links), both_ways),
        (networkx.MultiDiGraph([*links, links[0]]), [[0, 0, 1, 2], [1, 1, 2, 2]]),
        (networkx.MultiGraph([*links, links[0]]), twice),
        (networkx.Graph(), [[], []]),
        (networkx.empty_graph(3), [[], []]),
    ]


def test_from_networkx() -> None:
    for graph, pairs in networkx_cases():
        converted = graphs.from_networkx(graph)
        assert converted.num_targets == converted.num_sources == graph.number_of_nodes()
        assert sorted(converted.edge_index.T.tolist()) == sorted(
            map(list, zip(*pairs, strict=True))
        )


def test_what_cannot_be_converted() -> None:
    got = "torch.float32 of shape [2, 2]"
    with refused("matrix", expected="boolean", got=got, remedy="matrix != 0"):
        graphs.from_dense(torch.ones(2, 2))
    with refused("matrix", expected="boolean", got="list", remedy="rows are targets"):
        graphs.from_dense([[True]])  # type: ignore[arg-type]
    with refused("matrix", expected="SciPy sparse", got="list", remedy="coo_array"):
        graphs.from_scipy([[1]])
    with refused("graph", expected="NetworkX", got="list", remedy="graphs.edges"):
        graphs.from_networkx([(0, 1)])
    with refused("data", expected="sparse_size", got="None", remedy="num_nodes"):
        graphs.from_pyg(PAIRS)
    with refused("data", expected="Data with edge_index", got="Simple", remedy="graphs.edges"):
        graphs.from_pyg(SimpleNamespace(x=None))


def test_pyg_edge_index_without_a_size() -> None:
    pyg = pytest.importorskip("torch_geometric")
    with refused("data", expected="sparse_size", got="(None, None)", remedy="num_nodes"):
        graphs.from_pyg(pyg.EdgeIndex(PAIRS))
