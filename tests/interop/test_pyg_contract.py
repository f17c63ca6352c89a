"""A drop-in raises an error if and only if PyG's layer does, and changes no input."""

from __future__ import annotations

import copy
from typing import Any

import networkx
import pytest
import scipy.sparse
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

import edgewise.interop.pyg as ours
from edgewise import ArgumentError, graphs
from tests.errors import case as named
from tests.interop.parity import EDGE, Case, twins
from tests.interop.pyg_inputs import (
    CONFIGURATIONS,
    EACH_LAYER,
    NODES,
    Call,
    calls,
    edge_list,
    equivalents,
)

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:Converting sparse")


def outcome(layer: nn.Module, call: Call) -> Any:
    """The layer's output, or its error."""
    try:
        with torch.no_grad():
            return layer(**call)
    except Exception as error:
        return error


def flat(output: Any) -> list[Tensor]:
    """All tensors of an output, dense."""
    if isinstance(output, (tuple, list)):
        return [tensor for item in output for tensor in flat(item)]
    if isinstance(output, EdgeIndex):
        return [output.as_tensor()]
    return [output.to_dense() if output.layout is not torch.strided else output]


def assert_equal(output: Any, pyg_output: Any) -> None:
    tensors, pyg_tensors = flat(output), flat(pyg_output)
    assert len(tensors) == len(pyg_tensors)
    for tensor, pyg_tensor in zip(tensors, pyg_tensors, strict=True):
        torch.testing.assert_close(tensor, pyg_tensor, rtol=1e-4, atol=1e-5, equal_nan=True)


def built(case: Case) -> tuple[nn.Module, nn.Module]:
    layers = twins(case, "random", torch.float32)
    return layers[0].eval(), layers[1].eval()


def is_misshapen(case: Case, call: Call, num_edges: int) -> bool:
    """Whether edge weights or features do not have one row of the layer's width for each edge."""
    value = call.get("edge_weight", call.get("edge_attr"))
    if value is None:
        return False
    if getattr(call["edge_index"], "layout", None) is torch.sparse_csr:
        num_edges = call["edge_index"]._nnz()
    shape = getattr(value, "shape", torch.Size())
    if shape[:1] != (num_edges,):
        return True
    if case.layer == "GCNConv":
        return shape[1:].numel() != 1
    return bool(case.edges) and (shape[1:] or (1,))[-1] != case.edges


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("num_edges", [9, 0])
@pytest.mark.parametrize("case", CONFIGURATIONS, ids=str)
def test_a_layer_raises_an_error_if_and_only_if_pyg_does(case: Case, num_edges: int) -> None:
    """It also raises an error for edge weights or features of a wrong shape, which PyG expands."""
    layer, pyg_layer = built(case)
    # PyG marks matrices as coalesced, so that each layer gets inputs of its own.
    inputs, pyg_inputs = calls(case, num_edges), calls(case, num_edges)
    for name in inputs:
        output = outcome(layer, inputs[name])
        pyg_output = outcome(pyg_layer, pyg_inputs[name])
        with named(name):
            if is_misshapen(case, inputs[name], num_edges):
                assert isinstance(output, ArgumentError)
            elif not isinstance(pyg_output, Exception):
                if isinstance(output, Exception):
                    raise output
                assert_equal(output, pyg_output)
            elif not isinstance(output, ArgumentError):
                # The user's network inside GINConv raises errors of its own.
                assert case.layer == "GINConv"
                assert str(output) == str(pyg_output)


@pytest.mark.parametrize("case", CONFIGURATIONS, ids=str)
def test_a_layer_computes_what_pyg_does_for_equal_inputs(case: Case) -> None:
    layer, pyg_layer = built(case)
    for name, (call, pyg_call) in equivalents(case).items():
        with named(name):
            assert_equal(layer(**call), pyg_layer(**pyg_call))


def snapshot(value: Any) -> Any:
    """Values and attributes of an input."""
    if isinstance(value, (tuple, list)):
        return [snapshot(item) for item in value]
    if isinstance(value, dict):
        return {key: snapshot(item) for key, item in value.items()}
    if isinstance(value, EdgeIndex):
        attributes = value.sparse_size(), value.sort_order, value.is_undirected
        return attributes, snapshot(value.as_tensor())
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    attributes = {"dtype": value.dtype, "requires_grad": value.requires_grad, **vars(value)}
    if value.layout is torch.sparse_coo:
        attributes["is_coalesced"] = value.is_coalesced()
        return attributes, value._indices().tolist(), value._values().tolist()
    return attributes, value.detach().to_dense().tolist()


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("case", EACH_LAYER, ids=str)
def test_a_layer_changes_no_input(case: Case) -> None:
    layer, _ = built(case)
    unequal = {f"PyG's {name}": call for name, (call, _) in equivalents(case).items()}
    for name, call in (calls(case, 9) | unequal).items():
        before = snapshot(call)
        outcome(layer, call)
        with named(name):
            assert repr(snapshot(call)) == repr(before)


@pytest.mark.parametrize("name", ["SAGEConv", "GATConv", "GCNConv"])
def test_pygs_code_does_not_change_an_uncoalesced_matrix(name: str) -> None:
    layer = getattr(ours, name)(4, 2)
    matrix = torch.sparse_coo_tensor([[1, 0, 1], [0, 1, 0]], torch.rand(3), (2, 2))
    expected = layer(torch.ones(2, 4), matrix)
    layer.register_propagate_forward_hook(lambda *_: None)
    torch.testing.assert_close(layer(torch.ones(2, 4), matrix), expected)
    assert not matrix.is_coalesced()


@pytest.mark.parametrize("name", ["GATConv", "TransformerConv", "GMMConv"])
def test_features_of_an_uncoalesced_matrix_have_no_order(name: str) -> None:
    options = {"dim": EDGE, "kernel_size": 2} if name == "GMMConv" else {"edge_dim": EDGE}
    layer = getattr(ours, name)(4, 2, **options)
    if name == "GATConv":
        layer.add_self_loops = False
    matrix = torch.sparse_coo_tensor([[1, 0], [0, 1]], torch.rand(2), (2, 2))
    with pytest.raises(ArgumentError, match=r"edge_index.*coalesce\(\)"):
        layer(torch.ones(2, 4), matrix, torch.rand(2, EDGE))


def test_no_conversion_changes_its_input() -> None:
    index = edge_list(9)
    data = Data(torch.randn(NODES, 3), index, edge_attr=torch.rand(9, 2))
    graphs.from_pyg(data)
    assert set(data.keys()) == {"x", "edge_index", "edge_attr"}
    for edge_index in (
        index,
        EdgeIndex(index, sparse_size=(NODES, NODES)),
        EdgeIndex(index.sort(dim=1)[0], sparse_size=(NODES, NODES), sort_order="row"),
    ):
        before = snapshot(edge_index)
        if isinstance(edge_index, EdgeIndex):
            graphs.from_pyg(edge_index)
        graphs.edges(edge_index, NODES).with_self_loops().transpose()
        assert repr(snapshot(edge_index)) == repr(before)
    mask = torch.eye(3, dtype=torch.bool)
    before = snapshot(mask)
    graphs.from_dense(mask)
    assert snapshot(mask) == before
    rows, columns, entries = [2, 0, 0, 2], [1, 2, 1, 1], [1.0, 2.0, 3.0, 4.0]
    coo = scipy.sparse.coo_array((entries, (rows, columns)), shape=(3, 3))
    raw = scipy.sparse.csr_array(([1.0, 2.0, 3.0], [2, 0, 2], [0, 3, 3, 3]), shape=(3, 3))
    for matrix in (coo, raw, raw.T, coo.todok(), coo.tolil()):
        getattr(matrix, "has_canonical_format", None)  # SciPy caches this property.
        before = repr(vars(matrix))
        graphs.from_scipy(matrix)
        assert repr(vars(matrix)) == before
    networkx_graph = networkx.path_graph(4)
    graphs.from_networkx(networkx_graph)
    assert networkx.utils.graphs_equal(networkx_graph, networkx.path_graph(4))
