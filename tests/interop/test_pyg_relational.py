"""Options and errors of RGCN, RGAT, FiLM, HGT, SuperGAT, PNA, GINE and GPS."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")
from torch_geometric import nn as theirs

import edgewise.interop.pyg as ours
from edgewise import ArgumentError
from edgewise.interop.pyg.drop_in import DropIn
from tests.interop.parity import IN, NEWER, Case, assert_same, gradients, inputs, twins

DOUBLE = torch.float64
INDEX = torch.tensor([[0, 1, 2, 3, 1, 3], [1, 2, 3, 0, 0, 2]])
TYPES = torch.tensor([0, 1, 2, 2, 0, 1])


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def pair(name: str, *arguments: Any, **options: Any) -> tuple[nn.Module, nn.Module]:
    """PyG's layer and ours with its parameters, in float64."""
    layers = [getattr(library, name)(*arguments, **options).double() for library in (ours, theirs)]
    for parameter in layers[1].parameters():
        nn.init.uniform_(parameter, -0.8, 0.8)
    layers[0].load_state_dict(layers[1].state_dict())
    return layers[0], layers[1]


def assert_agree(layers: tuple[nn.Module, nn.Module], *call: Any, **more: Any) -> None:
    """Outputs, and gradients of all parameters and of features in ``call``."""
    outs = [layer(*call, **more) for layer in layers]
    features = [x for x in call if isinstance(x, Tensor) and x.requires_grad]
    assert_same(outs[0], outs[1], "output: ")
    probe = torch.randn_like(outs[1])
    pairs = zip(
        *(gradients(*o, features, probe) for o in zip(layers, outs, strict=True)), strict=True
    )
    for ours_, theirs_ in pairs:
        assert_same(ours_, theirs_, "gradient: ")


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("case", NEWER, ids=str)
def test_pygs_messages_are_not_computed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(DropIn, "propagate", fail)
    monkeypatch.setattr(nn.MultiheadAttention, "forward", fail)
    layer, _ = twins(case, "random", torch.float32)
    x, index, edge = inputs(case, "random", torch.float32)
    assert layer(x, index, edge).isfinite().all()


@pytest.mark.parametrize("options", [{}, {"num_bases": 2}], ids=str)
def test_rgcn_of_node_ids(options: dict[str, Any]) -> None:
    layers = pair("RGCNConv", 4, 2, 3, **options)
    assert_agree(layers, None, INDEX, TYPES)
    assert_agree(layers, torch.tensor([3, 0, 1, 1]), INDEX, TYPES)
    layers = pair("RGCNConv", (4, 6), 2, 3, **options)
    assert_agree(layers, (None, torch.tensor([5, 0, 1, 1])), INDEX, TYPES)


@pytest.mark.parametrize("name", ["RGCNConv", "RGATConv"])
def test_block_diagonal_matrices(name: str) -> None:
    layers = pair(name, 6, 4, 3, num_blocks=2)
    assert_agree(layers, torch.randn(4, 6, dtype=DOUBLE, requires_grad=True), INDEX, TYPES)


def test_rgat_with_edge_features_and_weights() -> None:
    for mode in ("additive-self-attention", "multiplicative-self-attention"):
        layers = pair("RGATConv", IN, 2, 3, heads=2, edge_dim=4, attention_mode=mode)
        x, edge = torch.randn(4, IN, dtype=DOUBLE), torch.randn(6, 4, dtype=DOUBLE)
        call = (x.requires_grad_(), INDEX, TYPES, edge.requires_grad_())
        assert_agree(layers, *call)
        weights = [layer(*call, return_attention_weights=True)[1] for layer in layers]
        assert torch.equal(weights[0][0], INDEX)
        assert_same(weights[0][1], weights[1][1])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", ["RGCNConv", "RGATConv", "FiLMConv"])
def test_wrong_edge_types_are_named(name: str) -> None:
    layer, x = getattr(ours, name)(IN, 2, 3), torch.randn(4, IN)
    for types in (None, TYPES[:-1], TYPES[:, None], TYPES.float(), TYPES + 1, TYPES - 1):
        with pytest.raises(ArgumentError, match="edge_type"):
            layer(x, INDEX, types)
    matrix = torch.sparse_coo_tensor(INDEX.flip(0), torch.ones(6), (4, 4), check_invariants=True)
    with pytest.raises(ArgumentError, match=r"edge_index.*coalesce"):
        layer(x, matrix, TYPES)
    rows = matrix.coalesce().indices().flip(0)
    torch.testing.assert_close(layer(x, matrix.coalesce(), TYPES), layer(x, rows, TYPES))
    changed = TYPES.clone()
    before = layer(x, INDEX, changed)
    changed[0] = 2
    assert not layer(x, INDEX, changed).allclose(before)


HETERO = {
    ("a", "to", "b"): torch.tensor([[0, 1, 2, 2], [0, 0, 1, 3]]),
    ("b", "back", "a"): torch.tensor([[0, 1, 3], [2, 2, 0]]),
    ("b", "to", "b"): torch.tensor([[0, 1], [1, 1]]),
}
METADATA = (["a", "b", "c"], [*HETERO, ("c", "to", "a")])


def hetero_features(width: int) -> dict[str, Tensor]:
    sizes = {"b": 4, "a": 3, "c": 2}
    return {
        name: torch.randn(n, width, dtype=DOUBLE, requires_grad=True) for name, n in sizes.items()
    }


@pytest.mark.parametrize("width", [4, IN])
def test_hgt(width: int) -> None:
    layers = pair("HGTConv", width, 4, METADATA, heads=2)
    x = hetero_features(width)
    outs = [layer(x, HETERO) for layer in layers]
    assert outs[0].keys() == outs[1].keys() == {"a", "b"}
    assert_same(*(torch.cat([out["a"], out["b"]]) for out in outs))
    probe = {name: torch.randn_like(out) for name, out in outs[0].items()}
    losses = [sum((out[n] * probe[n]).sum() for n in probe) for out in outs]
    wanted = [[*x.values(), *layer.parameters()] for layer in layers]
    grads = [
        torch.autograd.grad(loss, tensors, allow_unused=True, materialize_grads=True)
        for loss, tensors in zip(losses, wanted, strict=True)
    ]
    for mine, other in zip(*grads, strict=True):
        assert_same(mine, other)


def test_hgt_joins_the_edges_once_and_again_after_a_change() -> None:
    layer = ours.HGTConv(4, 4, METADATA, heads=2).double()
    x, edges = hetero_features(4), {t: index.clone() for t, index in HETERO.items()}
    before = layer(x, edges)["b"]
    assert torch.equal(layer(x, edges)["b"], before)
    edges["b", "to", "b"][1, 0] = 3
    assert not layer(x, edges)["b"].allclose(before)
    fresh = {t: index.clone() for t, index in edges.items()}
    assert_same(layer(x, edges)["b"], layer(x, fresh)["b"])
    with pytest.raises(ArgumentError, match="edge_index_dict"):
        layer(x, {("a", "of", "b"): INDEX})


@pytest.mark.parametrize("attention", ["MX", "SD"])
@pytest.mark.parametrize("loops", [True, False])
def test_supergat_learns_from_the_same_edges(attention: str, loops: bool) -> None:
    options = {"attention_type": attention, "add_self_loops": loops}
    layers = pair("SuperGATConv", IN, 2, heads=2, **options)
    x = torch.randn(4, IN, dtype=DOUBLE, requires_grad=True)
    negative = torch.tensor([[0, 3], [2, 1]])
    outs, losses = [], []
    for layer in layers:
        outs.append(layer.train()(x, INDEX, negative))
        losses.append(layer.get_attention_loss())
    assert_same(*outs)
    assert_same(*losses)
    assert_same(*(torch.autograd.grad(loss, x)[0] for loss in losses))
    layers[0].edge_sample_ratio = 0.5
    layers[0](x, INDEX)
    assert layers[0].get_attention_loss().isfinite()


def test_other_statistics_of_pna_are_pygs() -> None:
    degrees = torch.tensor([0, 2, 2])
    layers = pair("PNAConv", IN, 2, ["median", "mean"], ["identity"], degrees)
    assert_agree(layers, torch.randn(4, IN, dtype=DOUBLE, requires_grad=True), INDEX)


def test_pna_in_a_model_keeps_its_degrees() -> None:
    options = {"train_norm": True, "towers": 5, "divide_input": True}
    layers = pair("PNAConv", IN, 10, ["std"], ["linear"], torch.tensor([0, 2, 2]), **options)
    assert "aggr_module.avg_deg_lin" in layers[0].state_dict()
    assert_agree(layers, torch.randn(4, IN, dtype=DOUBLE, requires_grad=True), INDEX)


@pytest.mark.parametrize("norm", ["batch_norm", "graph_norm", None])
def test_gps_of_a_batch(norm: str | None) -> None:
    layers = pair("GPSConv", 4, None, heads=2, norm=norm)
    batch = torch.tensor([0, 0, 0, 1, 3, 3])
    x = torch.randn(6, 4, dtype=DOUBLE, requires_grad=True)
    assert_agree(layers, x, INDEX, batch=batch)
    for wrong in (batch[:-1], batch.flip(0), batch.double()):
        with pytest.raises(ArgumentError, match="batch"):
            layers[0](x, INDEX, batch=wrong)


def test_gps_with_other_attention_is_pygs() -> None:
    x = torch.randn(6, 4, dtype=DOUBLE, requires_grad=True)
    for options in ({"attn_type": "performer"}, {"attn_kwargs": {"add_zero_attn": True}}):
        assert_agree(pair("GPSConv", 4, None, heads=2, **options), x, INDEX)


@pytest.mark.parametrize("edge", [None, torch.randn(6, 3), torch.randn(5, IN), torch.randn(IN)])
def test_wrong_edge_features_are_named(edge: Tensor | None) -> None:
    degrees = torch.tensor([0, 2, 2])
    layers = [
        ours.GINEConv(nn.Linear(IN, 2)),
        ours.PNAConv(IN, 2, ["mean"], ["identity"], degrees, edge_dim=4),
    ]
    for layer in layers:
        with pytest.raises(ArgumentError, match="edge_attr"):
            layer(torch.randn(4, IN), INDEX, edge)


def test_layers_can_be_copied_after_use() -> None:
    for case in NEWER[::3]:
        layer, _ = twins(case, "random", torch.float32)
        x, index, edge = inputs(case, "random", torch.float32)
        out = layer.eval()(x, index, edge)
        assert torch.equal(copy.deepcopy(layer)(x, index, edge), out)
