"""The ways in which PyG's layers may be called, each against PyG."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")
from torch_geometric import EdgeIndex
from torch_geometric import nn as theirs

import edgewise.interop.pyg as ours
from tests.interop.parity import EDGE, GRAPHS, IN, Case, assert_same, gradients, twins

PLAIN = [
    Case("GCNConv"),
    Case("SAGEConv"),
    Case("GINConv"),
    Case("GATConv", {"heads": 2}),
    Case("GATv2Conv", {"heads": 2}),
    Case("TransformerConv", {"heads": 2}),
    Case("GMMConv", {"dim": EDGE, "kernel_size": 2}, EDGE),
]
ATTENTION = [case for case in PLAIN if "heads" in case.arguments]
DOUBLE = torch.float64


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def example(case: Case, graph: str = "self_loops") -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Features that require gradients, edge_index, and the edge features that a case needs."""
    index, nodes, _ = GRAPHS[graph]()
    x = torch.randn(nodes, IN, dtype=DOUBLE, requires_grad=True)
    edge = torch.rand(index.shape[1], EDGE, dtype=DOUBLE)
    return x, index, {"edge_attr": edge} if case.edges else {}


def assert_agree(
    case: Case, x: Tensor, adjacency: Any, graph: str = "self_loops", **more: Any
) -> None:
    """Outputs and gradients of both layers for the same call."""
    mine, other = twins(case, graph, DOUBLE)
    outs = [layer(x, adjacency, **more) for layer in (mine, other)]
    assert_same(*outs, "output: ")
    probe = torch.randn_like(outs[1])
    found = (gradients(*pair, [x], probe) for pair in zip((mine, other), outs, strict=True))
    for pair in zip(*found, strict=True):
        assert_same(*pair, "gradient: ")


@pytest.mark.parametrize("name", ours.__all__)
def test_it_is_pygs_layer_with_pygs_signatures(name: str) -> None:
    mine, other = getattr(ours, name), getattr(theirs, name)
    assert issubclass(mine, other)
    assert inspect.signature(mine) == inspect.signature(other)
    wanted, got = (inspect.signature(layer.forward).parameters for layer in (other, mine))
    assert [(p.name, p.default, p.kind) for p in got.values()] == [
        (p.name, p.default, p.kind) for p in wanted.values()
    ]


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_repr_is_pygs(case: Case) -> None:
    mine, other = twins(case, "random", DOUBLE)
    assert repr(mine) == repr(other)


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_an_edge_index_object(case: Case) -> None:
    x, index, edge = example(case)
    by_column = index[1].argsort(stable=True)
    edge = {name: features[by_column] for name, features in edge.items()}
    known = EdgeIndex(index[:, by_column], sparse_size=(len(x), len(x)), sort_order="col")
    assert_agree(case, x, known, **edge)


@pytest.mark.slow(every=3)
@pytest.mark.filterwarnings("ignore:Sparse", "ignore:Converting sparse")
@pytest.mark.parametrize("layout", ["csr", "coo"])
@pytest.mark.parametrize("graph", ["random", "self_loops", "isolated_node"])
@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_a_sparse_matrix_of_the_transposed_adjacency(case: Case, graph: str, layout: str) -> None:
    x, index, edge = example(case, graph)
    size = (len(x), len(x))
    values = edge.get("edge_attr", torch.rand(index.shape[1], dtype=DOUBLE) + 0.1)
    if layout == "csr" and values.dim() > 1:
        pytest.skip("a CSR matrix of vectors cannot be made from a COO one")
    matrix = torch.sparse_coo_tensor(index.flip(0), values, (*size, *values.shape[1:])).coalesce()
    if layout == "csr":
        matrix = matrix.to_sparse_csr()
    assert_agree(case, x, matrix, graph)


LOOPS_WITH_FEATURES = [
    Case(layer, {"edge_dim": EDGE, "fill_value": "mean"}, EDGE)
    for layer in ("GATConv", "GATv2Conv")
]


@pytest.mark.parametrize("case", [*PLAIN, *LOOPS_WITH_FEATURES], ids=str)
def test_reading_along_the_edges_the_other_way(case: Case) -> None:
    x, index, edge = example(case, "random")
    turned = Case(case.layer, {**case.arguments, "flow": "target_to_source"}, case.edges)
    assert_agree(turned, x, index, "random", **edge)


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("graph", ["bipartite", "bipartite_more_targets"])
@pytest.mark.parametrize("case", LOOPS_WITH_FEATURES, ids=str)
def test_loops_of_two_sets_are_filled_by_name(case: Case, graph: str, flow: str) -> None:
    """As if they were made by hand; PyG fails where an edge enters a node that gets no loop."""
    index, sources, targets = GRAPHS[graph]()
    forwards = flow == "source_to_target"
    index = index if forwards else index.flip(0)
    index = index[:, index[0] != index[1]]
    features = torch.rand(index.shape[1], EDGE, dtype=DOUBLE)
    nodes = torch.arange(min(sources, targets))
    means = [features[index[1] == node].sum(0) for node in nodes]
    means = [total / max(1, int((index[1] == n).sum())) for n, total in enumerate(means)]
    looped = torch.cat([index, nodes.expand(2, -1)], dim=1)
    mine, _ = twins(case, graph, DOUBLE)
    mine.flow = flow
    x = tuple(torch.randn(n, w, dtype=DOUBLE) for n, w in ((sources, IN), (targets, 3)))
    out = mine(x, index, features)
    mine.add_self_loops = False
    assert_same(out, mine(x, looped, torch.cat([features, torch.stack(means)])))


@pytest.mark.parametrize("case", PLAIN[:3], ids=str)
def test_one_graph_for_a_batch_of_features(case: Case) -> None:
    _, index, _ = example(case)
    x = torch.randn(3, 9, IN, dtype=DOUBLE, requires_grad=True)
    assert_agree(case, x, index)


@pytest.mark.parametrize("name", ["SAGEConv", "GINConv", "GATConv", "GMMConv"])
def test_sources_alone_with_a_size(name: str) -> None:
    case = next(case for case in PLAIN if case.layer == name)
    index, sources, targets = GRAPHS["bipartite"]()
    x = torch.randn(sources, IN, dtype=DOUBLE)
    mine, other = twins(case, "bipartite", DOUBLE)
    more = {"edge_attr": torch.rand(index.shape[1], EDGE, dtype=DOUBLE)} if case.edges else {}
    outs = [layer((x, None), index, size=(sources, targets), **more) for layer in (mine, other)]
    assert_same(*outs)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("graph", ["random", "self_loops", "multi_edge"])
@pytest.mark.parametrize("case", ATTENTION, ids=str)
def test_the_attention_weights(case: Case, graph: str, asked: bool) -> None:
    x, index, _ = example(case, graph)
    mine, other = twins(case, graph, DOUBLE)
    results = [layer(x, index, return_attention_weights=asked) for layer in (mine, other)]
    assert isinstance(results[0], tuple) is isinstance(results[1], tuple)
    if not isinstance(results[1], tuple):
        assert_same(*results)
        return
    (out, (edges, weights)), (other_out, (other_edges, other_weights)) = results
    assert torch.equal(edges, other_edges)
    assert_same(out, other_out)
    assert_same(weights, other_weights)
    (grad,), (other_grad,) = (
        torch.autograd.grad(w.square().sum() + o.sum(), x)
        for o, w in ((out, weights), (other_out, other_weights))
    )
    assert_same(grad, other_grad)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv"])
def test_with_dropout_the_weights_returned_are_those_used(name: str) -> None:
    layer = getattr(ours, name)(IN, 3, heads=2, dropout=0.5, bias=False).double().train()
    x, index, _ = example(Case(name))
    out, (edges, weights) = layer(x, index, return_attention_weights=True)
    assert 0.2 < (weights == 0).double().mean() < 0.8
    value = (layer.lin if name == "GATConv" else layer.lin_l)(x).view(-1, 2, 3)
    messages = weights[..., None] * value[edges[0]]
    expected = torch.zeros(len(x), 2, 3, dtype=DOUBLE).index_add(0, edges[1], messages)
    assert_same(out, expected.flatten(1))


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("case", ATTENTION, ids=str)
def test_dropout_is_for_training_and_drops_the_asked_share(case: Case) -> None:
    x, index, _ = example(case)
    layer = case.build(ours, IN).double()
    layer.dropout = 0.5
    assert torch.equal(layer.eval()(x, index), layer(x, index))
    kept = layer(x, index)
    draws = torch.stack([layer.train()(x, index) for _ in range(2000)])
    assert (draws.mean(0) - kept).abs().max() < 0.15
    assert not torch.equal(draws[0], draws[1])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv"])
def test_the_attention_weights_of_a_sparse_matrix_are_one(name: str) -> None:
    mine, other = twins(Case(name, {"heads": 2}), "random", DOUBLE)
    x, index, _ = example(Case(name), "self_loops")
    ones = torch.ones(index.shape[1], dtype=DOUBLE)
    matrix = torch.sparse_coo_tensor(index.flip(0), ones, (9, 9)).to_sparse_csr()
    results = [layer(x, matrix, return_attention_weights=True) for layer in (mine, other)]
    (out, (adjacency, weights)), (other_out, (other_adjacency, other_weights)) = results
    assert_same(out, other_out)
    assert_same(weights, other_weights)
    assert adjacency.layout == other_adjacency.layout
    assert torch.equal(adjacency.crow_indices(), other_adjacency.crow_indices())
    assert torch.equal(adjacency.col_indices(), other_adjacency.col_indices())
    assert_same(adjacency.values(), other_adjacency.values())


@pytest.mark.parametrize("width", [-1, (-1, -1)], ids=str)
@pytest.mark.parametrize("case", PLAIN[1:2] + PLAIN[3:], ids=str)
def test_widths_may_be_found_at_the_first_call(case: Case, width: Any) -> None:
    if case.layer in ("GATConv", "GATv2Conv", "TransformerConv"):
        case = Case(case.layer, {"heads": 2, "edge_dim": -1}, EDGE)
    index, sources, targets = GRAPHS["bipartite"]()
    x: Any = (torch.randn(sources, IN), torch.randn(targets, 3))
    if width == -1:
        index, sources, _ = GRAPHS["random"]()
        x = torch.randn(sources, IN)
    edge = {"edge_attr": torch.rand(index.shape[1], EDGE)} if case.edges else {}
    layer, other = case.build(ours, width), case.build(theirs, width)
    out = layer(x, index, **edge)
    other(x, index, **edge)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(out, other(x, index, **edge))


def test_a_cached_gcn_keeps_its_first_graph_until_it_is_reset() -> None:
    x, index, _ = example(Case("GCNConv"))
    for flow in ("source_to_target", "target_to_source"):
        layer = ours.GCNConv(IN, 2, cached=True, flow=flow).double()
        first = layer(x, index)
        other = theirs.GCNConv(IN, 2, cached=True, flow=flow).double()
        other.load_state_dict(layer.state_dict())
        assert_same(first, other(x, index))
        assert torch.equal(layer._cached_edge_index[0], other._cached_edge_index[0])
        assert torch.equal(layer(x, index[:, :3]), first)
        layer.reset_parameters()
        assert layer._cached_edge_index is None


def test_training_follows_pygs_loss_curve() -> None:
    x, index, _ = example(Case("GATConv"), "random")
    goal = torch.randn(9, 2, dtype=DOUBLE)
    curves, weights = [], None
    for library in (theirs, ours):
        layers = [library.GATConv(IN, 4, heads=3), library.GATv2Conv(12, 2, heads=1)]
        model = nn.ModuleList(layers).double()
        weights = weights or copy.deepcopy(model.state_dict())
        model.load_state_dict(weights)
        optimiser, losses = torch.optim.Adam(model.parameters(), lr=0.02), []
        for _ in range(30):
            loss = (model[1](model[0](x.detach(), index).tanh(), index) - goal).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        curves.append(torch.stack(losses))
    assert curves[0][-1] < 0.5 * curves[0][0]
    torch.testing.assert_close(curves[1], curves[0], rtol=1e-8, atol=0)


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_a_layer_can_be_copied_after_use(case: Case) -> None:
    x, index, edge = example(case)
    layer = case.build(ours, IN).double()
    out = layer(x, index, **edge)
    assert torch.equal(copy.deepcopy(layer)(x, index, **edge), out)


@pytest.mark.parametrize("fill", ["mean", 0.5])
def test_features_of_loops_follow_what_is_written_into_the_edges(fill: str | float) -> None:
    """They are filled once for features without a gradient, and anew where those have changed."""
    case = Case("GATv2Conv", {"heads": 2, "edge_dim": EDGE, "fill_value": fill}, EDGE)
    x, index, more = example(case)
    mine, other = twins(case, "self_loops", DOUBLE)
    before = mine(x, index, **more)
    assert_same(before, other(x, index, **more), "output: ")
    more["edge_attr"].mul_(3)
    assert_same(mine(x, index, **more), other(x, index, **more), "output: ")
    assert not torch.equal(mine(x, index, **more), before)
