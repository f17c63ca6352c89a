"""The graph of an edge_index: made once, made anew when it changes, let go when it is gone."""

from __future__ import annotations

import gc

import pytest
import torch

pytest.importorskip("torch_geometric")
from torch_geometric import EdgeIndex

import edgewise.interop.pyg as ours
from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Graph
from edgewise.interop.pyg import adjacency
from edgewise.interop.pyg.adjacency import graph_of


@pytest.fixture
def index() -> torch.Tensor:
    return torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])


def graph(index: torch.Tensor, nodes: int = 3, forwards: bool = True) -> Graph:
    x = torch.zeros(nodes, 1)
    return graph_of(index, x, x, None, forwards)


def test_a_static_edge_index_is_prepared_once(index: torch.Tensor) -> None:
    assert graph(index) is graph(index)
    assert graph(index) is not graph(index.clone())
    assert graph(index, 4).num_sources == 4
    assert torch.equal(graph(index, forwards=False).source, index[1])


def test_two_layers_share_the_loops_of_a_graph(index: torch.Tensor) -> None:
    x = torch.randn(3, 4)
    _, (first, _) = ours.GATConv(4, 2)(x, index, return_attention_weights=True)
    _, (second, _) = ours.GATv2Conv(4, 2)(x, index, return_attention_weights=True)
    assert first is second


def test_writing_into_it_makes_another(index: torch.Tensor) -> None:
    """GCN's weights are kept with the graph, so that an old graph would show."""
    layer, x = ours.GCNConv(4, 2), torch.randn(3, 4)
    before = layer(x, index)
    index[1, 0] = 2
    after = layer(x, index)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, layer(x, index.clone()))


def test_an_edge_index_object_says_how_many_nodes_there_are() -> None:
    index = EdgeIndex([[0, 1, 2], [4, 3, 0]], sparse_size=(3, 5))
    few, many = torch.zeros(3, 1), torch.zeros(5, 1)
    assert graph_of(index, few, many, None, True).num_targets == 5
    assert graph_of(index, many, None, None, False).num_targets == 3
    with pytest.raises(ArgumentError, match=r"EdgeIndex\.sparse_size"):
        graph_of(index, many, few, None, True)


def test_a_graph_lives_no_longer_than_its_edge_index() -> None:
    gc.collect()
    before = len(adjacency._graphs)
    index = torch.tensor([[0, 1], [1, 0]])
    layer = ours.GATConv(4, 2)
    layer(torch.randn(2, 4), index)
    assert len(adjacency._graphs) == before + 1
    del index
    gc.collect()
    assert len(adjacency._graphs) == before


def test_inference_mode_keeps_nothing(index: torch.Tensor) -> None:
    layer, x = ours.GCNConv(4, 2), torch.randn(3, 4)
    with torch.inference_mode():
        inner = index.clone()
        first = layer(x, inner)
        inner[0, 0] = 2
        assert not torch.allclose(layer(x, inner), first)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", ["GINConv", "SAGEConv", "GCNConv", "GATConv", "GMMConv"])
def test_values_of_a_matrix_are_read_in_each_call(name: str) -> None:
    """The tensor that a matrix was built from shares its memory, but not its version."""
    edges = torch.tensor([[0, 0, 1, 2], [1, 1, 2, 0]])
    options = {"dim": 2, "kernel_size": 2} if name == "GMMConv" else {}
    options |= {"edge_dim": 2, "fill_value": 0.0} if name == "GATConv" else {}
    vectors = (2,) if options else ()
    kind = getattr(ours, name)
    layer = kind(torch.nn.Identity()) if name == "GINConv" else kind(4, 4, **options)
    x = torch.randn(3, 4)
    for columns in (edges, edges[:, 1:]):
        values = torch.rand(columns.shape[1], *vectors) + 1
        matrix = torch.sparse_coo_tensor(columns, values, (3, 3, *vectors))
        before = layer(x, matrix)
        values[0] *= 9
        fresh = torch.sparse_coo_tensor(columns, values.clone(), matrix.shape)
        assert not layer(x, fresh).allclose(before)
        torch.testing.assert_close(layer(x, matrix), layer(x, fresh))
