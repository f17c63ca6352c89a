"""Facts that can be computed by hand or are known of other libraries."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs

WORKED = torch.tensor([[1.0, 2, 3, 4], [4, 5, 9, 1], [6, 2, 1, 4]], dtype=torch.float64)
ENGINE = pytest.mark.parametrize("engine", ["dense", "reference", "auto"])


@ENGINE
def test_the_worked_self_attention(engine: str) -> None:
    """Three tokens with q = k = v, as in the lecture, which prints [3.99, 4.99, 8.99, 1.00]."""
    x = WORKED[:, None]
    out = ew.attend(x, x, x, graphs.complete(), engine=engine)[:, 0]
    first = torch.tensor([3.99901255, 4.99733673, 8.99400312, 1.00266327], dtype=torch.float64)
    third = torch.tensor([5.98661, 2.02008, 1.05354, 3.97992], dtype=torch.float64)
    torch.testing.assert_close(out[0], first, rtol=0, atol=1e-6)
    torch.testing.assert_close(out[2], third, rtol=0, atol=1e-5)  # it is given to five places


def test_the_worked_scores_and_weights() -> None:
    x = WORKED[:, None]
    graph = graphs.complete().bind(3)
    scores = ew.edge_scores(x, x, graph).view(3, 3)
    assert scores[0].tolist() == [15, 22.5, 14.5]
    weights = ew.attention_weights(x, x, graph).view(3, 3)
    first = torch.tensor([0.00055259, 0.99911224, 0.00033516], dtype=torch.float64)
    third = torch.tensor([0.00000083, 0.00669285, 0.99330633], dtype=torch.float64)
    torch.testing.assert_close(weights[0], first, rtol=0, atol=1e-8)
    torch.testing.assert_close(weights[2], third, rtol=0, atol=1e-8)


@pytest.mark.parametrize("width", [1, 16, 64])
@pytest.mark.parametrize("sigma", [1.0, 1.5])
def test_the_variance_of_a_score_is_sigma_to_the_fourth_times_width(
    sigma: float, width: int
) -> None:
    """Var(q·k) = σ⁴D, so that the default scale gives σ⁴. The fourth moment of a score is at most
    9σ⁸ (at D = 1), so the variance of n of them deviates by √(8/n)·σ⁴; six such is the bound."""
    n = 40_000
    query, key = sigma * torch.randn(2, n, 1, width, dtype=torch.float64)
    graph = graphs.window(0).bind(n)
    for score, expected in ((ew.Dot(1.0), sigma**4 * width), (ew.Dot(), sigma**4)):
        variance = float(ew.edge_scores(query, key, graph, score=score).var())
        assert abs(variance / expected - 1) < 6 * (8 / n) ** 0.5


def molecule() -> tuple[graphs.Graph, Tensor]:
    """A small connected graph and its shortest-path distances."""
    bonds = torch.tensor([[0, 1, 1, 2, 3, 3, 4], [1, 2, 3, 3, 4, 5, 5]])
    graph = graphs.edges(torch.cat([bonds, bonds.flip(0)], dim=1), 6)
    distance = torch.full((6, 6), 9)
    for k in (3, 2, 1):
        distance[graph.power(k).dense()] = k
    return graph, distance.fill_diagonal_(0)


@ENGINE
def test_graphormer_contains_mean_and_sum_aggregation(engine: str) -> None:
    """Shortest-path bias 0 at distance 1 and -inf elsewhere, and W_Q = 0: the mean of neighbours;
    times the degree it is their sum (Ying et al., 2021)."""
    graph, distance = molecule()
    table = torch.full((10, 2), -torch.inf, dtype=torch.float64)
    table[1] = 0
    value = torch.randn(6, 2, 3, dtype=torch.float64)
    bias = ew.TableBias(distance.flatten(), table)
    key = torch.randn_like(value)
    out = ew.attend(0 * key, key, value, graphs.complete(), bias=bias, engine=engine)
    mean = ew.aggregate(value, graph, reduce="mean")
    torch.testing.assert_close(out, mean, rtol=0, atol=1e-14)
    total = ew.aggregate(value, graph, reduce="sum")
    degree = graph.in_degree()[:, None, None]
    torch.testing.assert_close(degree * out, total, rtol=0, atol=1e-13)


FULL = {
    "window": graphs.window(7),
    "blocks": graphs.blocks(7),
    "hubs": graphs.hubs(range(7)),
    "BigBird": graphs.window(1) | graphs.hubs(range(7)) | graphs.random(2),
    "random": graphs.random(7),
    "causal, both ways": graphs.causal() | graphs.causal().transpose(),
    "power": graphs.window(1).power(6),
    "nothing left out": graphs.complete() - graphs.empty(),
}


@pytest.mark.parametrize("pattern", FULL.values(), ids=FULL)
def test_graphs_that_are_complete_are_full_attention(pattern: graphs.Pattern) -> None:
    query, key, value = torch.randn(3, 7, 2, 4, dtype=torch.float64)
    expected = ew.attend(query, key, value, graphs.complete())
    out = ew.attend(query, key, value, pattern)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-14)


@ENGINE
def test_a_complete_edge_index_is_pyg_transformer_conv(engine: str) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    heads, width, n = 3, 4, 6
    conv = nn.TransformerConv(5, width, heads=heads, root_weight=False).double()
    x = torch.randn(n, 5, dtype=torch.float64)
    query, key, value = (
        linear(x).view(n, heads, width) for linear in (conv.lin_query, conv.lin_key, conv.lin_value)
    )
    complete = graphs.complete().bind(n)
    out = ew.attend(query, key, value, complete, engine=engine).flatten(1)
    expected = conv(x, complete.edge_index)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)


def test_edge_vectors_are_pyg_transformer_conv() -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    graph, _ = molecule()
    conv = nn.TransformerConv(5, 4, heads=3, edge_dim=2, root_weight=False).double()
    x, features = torch.randn(6, 5).double(), torch.randn(graph.num_edges, 2).double()
    query, key, value = (
        linear(x).view(6, 3, 4) for linear in (conv.lin_query, conv.lin_key, conv.lin_value)
    )
    edge = ew.Projected(features, conv.lin_edge.weight.view(3, 4, 2))
    out = ew.attend(query, key, value, graph, edge_key=edge, edge_value=edge).flatten(1)
    expected = conv(x, graph.edge_index, features)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-13)


@ENGINE
def test_permuting_the_nodes_permutes_the_output(engine: str) -> None:
    graph, _ = molecule()
    order = torch.randperm(6)
    place = order.argsort()
    query, key, value = torch.randn(3, 6, 2, 4, dtype=torch.float64)
    bias = torch.randn(graph.num_edges, 2, dtype=torch.float64)
    moved = graphs.edges(place[graph.edge_index], 6)
    out = ew.attend(query, key, value, graph, bias=bias, engine=engine)
    shuffled = ew.attend(query[order], key[order], value[order], moved, bias=bias, engine=engine)
    torch.testing.assert_close(shuffled, out[order], rtol=0, atol=1e-14)


@ENGINE
def test_the_order_of_the_edges_does_not_matter(engine: str) -> None:
    graph, _ = molecule()
    order = torch.randperm(graph.num_edges)
    query, key, value = torch.randn(3, 6, 2, 4, dtype=torch.float64)
    bias = torch.randn(graph.num_edges, 2, dtype=torch.float64)
    shuffled = graphs.edges(graph.edge_index[:, order], 6)
    out = ew.attend(query, key, value, graph, bias=bias, engine=engine)
    again = ew.attend(query, key, value, shuffled, bias=bias[order], engine=engine)
    torch.testing.assert_close(again, out, rtol=0, atol=1e-14)


PAST = [graphs.causal(), graphs.causal() & graphs.window(2), graphs.causal() & graphs.blocks(3)]


@ENGINE
@pytest.mark.parametrize("pattern", PAST, ids=repr)
def test_causal_graphs_pass_no_gradient_from_the_future(
    pattern: graphs.Pattern, engine: str
) -> None:
    x = torch.randn(7, 2, 4, dtype=torch.float64)
    for position in range(7):
        key, value = x.clone().requires_grad_(), x.clone().requires_grad_()
        out = ew.attend(x, key, value, pattern, engine=engine)[position]
        for gradient in torch.autograd.grad(out.square().sum(), (key, value)):
            assert (gradient[position + 1 :] == 0).all()
        assert (gradient[position] != 0).any()


def test_cached_decoding_is_the_last_rows_of_the_whole() -> None:
    query, key, value = torch.randn(3, 9, 2, 4, dtype=torch.float64)
    for pattern in (*PAST, graphs.window(2) | graphs.hubs([0])):
        whole = ew.attend(query, key, value, pattern)
        last = ew.attend(query[-2:], key, value, pattern)
        torch.testing.assert_close(last, whole[-2:], rtol=0, atol=1e-14)
