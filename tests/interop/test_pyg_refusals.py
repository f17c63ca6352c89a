"""What a drop-in cannot do is refused with what to do instead, and never quietly left out."""

from __future__ import annotations

from functools import partial

import pytest
import torch

pytest.importorskip("torch_geometric")
import edgewise.interop.pyg as ours
from edgewise._utils.errors import ArgumentError


@pytest.fixture
def index() -> torch.Tensor:
    return torch.tensor([[0, 1, 2], [1, 2, 0]])


X = torch.randn(3, 4)


@pytest.mark.parametrize("aggr", ["lstm", "median", ["mean", "max"], None], ids=str)
def test_other_aggregations_name_pygs_layer(aggr: object) -> None:
    with pytest.raises(ArgumentError, match=r"aggr.*use torch_geometric\.nn\.SAGEConv"):
        ours.SAGEConv(4, 2, aggr=aggr)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_attention_is_a_sum(name: str) -> None:
    with pytest.raises(ArgumentError, match="one of add, sum; got 'max'"):
        getattr(ours, name)(4, 2, aggr="max")


def test_aggregations_are_checked_when_they_are_changed() -> None:
    layer = ours.SAGEConv(4, 2)
    with pytest.raises(ArgumentError, match="'softmax'"):
        layer.aggr = "softmax"


def test_decomposed_layers_are_refused(index: torch.Tensor) -> None:
    layer = ours.GATConv(4, 2)
    before = layer(X, index)
    layer.decomposed_layers = 2
    with pytest.raises(ArgumentError, match="decomposed_layers"):
        layer(X, index)
    layer.decomposed_layers = 1
    assert layer(X, index).equal(before)


def _append(seen: list[object], *given: object) -> None:
    seen.append(given)


def test_hooks_see_the_messages(index: torch.Tensor) -> None:
    for name in ("GATConv", "GCNConv", "SAGEConv"):
        layer = getattr(ours, name)(4, 2)
        before, seen = layer(X, index), []
        see = partial(_append, seen)
        handle = layer.register_message_forward_hook(see)
        torch.testing.assert_close(layer(X, index), before)
        handle.remove()
        assert len(seen) == 1
        assert layer(X, index).equal(before)


def test_a_subclass_with_messages_of_its_own_is_not_ignored(index: torch.Tensor) -> None:
    class Doubled(ours.SAGEConv):
        def message(self, x_j: torch.Tensor) -> torch.Tensor:
            return 2 * x_j

    class Quiet(ours.SAGEConv):
        """Changes nothing about messages."""

    with pytest.raises(ArgumentError, match=r"got message\."):
        Doubled(4, 2)(X, index)
    quiet, plain = Quiet(4, 2), ours.SAGEConv(4, 2)
    quiet.load_state_dict(plain.state_dict())
    assert quiet(X, index).equal(plain(X, index))


def test_another_axis_for_the_nodes(index: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match="node_dim=-1"):
        ours.GCNConv(3, 2, node_dim=-1)(X, index)
    first, plain = ours.GCNConv(4, 2, node_dim=0), ours.GCNConv(4, 2)
    first.load_state_dict(plain.state_dict())
    assert first(X, index).equal(plain(X, index))


def test_edge_features_that_the_layer_has_no_weights_for(index: torch.Tensor) -> None:
    for name in ("GATv2Conv", "TransformerConv"):
        with pytest.raises(ArgumentError, match="edge_dim=5"):
            getattr(ours, name)(4, 2)(X, index, torch.randn(3, 5))


def test_edge_features_that_are_missing(index: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match="edge_attr"):
        ours.TransformerConv(4, 2, edge_dim=5)(X, index)
    with pytest.raises(ArgumentError, match="pseudo-coordinates"):
        ours.GMMConv(4, 2, dim=2, kernel_size=2)(X, index)


def test_edges_and_sizes_that_do_not_fit(index: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match="source 2 at edge 2"):
        ours.GCNConv(4, 2)(X[:2], torch.tensor([[0, 1, 2], [1, 0, 0]]))
    with pytest.raises(ArgumentError, match="size"):
        ours.SAGEConv(4, 2)(X, index, size=(4, 3))
    with pytest.raises(ArgumentError, match="SparseTensor"):
        ours.GCNConv(4, 2)(X, [[0, 1], [1, 0]])
    with pytest.raises(ArgumentError, match="transpose the matrix"):
        ours.GCNConv(4, 2, flow="target_to_source")(X, torch.eye(3).to_sparse_coo())


def test_two_sets_of_nodes_where_there_is_one(index: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="does not support bipartite"):
        ours.GCNConv(4, 2)((X, X), index)
    with pytest.raises(ArgumentError, match="None as features of the targets"):
        ours.GATv2Conv(4, 2)((X, None), index)


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torchscript_has_an_error_of_its_own() -> None:
    model = torch.nn.ModuleList([ours.GATConv(4, 2)])
    with pytest.raises(ArgumentError, match=r"TorchScript.*torch\.compile"):
        torch.jit.script(model)


def test_an_error_of_the_users_network_is_raised_once(index: torch.Tensor) -> None:
    calls = []

    class Refusing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(x)
            raise ArgumentError("x", expected="a", got="b", remedy="c")

    with pytest.raises(ArgumentError, match="expected a; got b") as caught:
        ours.GINConv(Refusing())(X, index)
    assert len(calls) == 1
    assert caught.value.__cause__ is None
