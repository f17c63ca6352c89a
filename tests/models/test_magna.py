"""MAGNA: what diffusion does, and what remains without it."""

from __future__ import annotations

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.models.gat import GATLayer
from edgewise.models.magna import MultiHopAttention, OutputPropagation, diffuse
from tests.errors import refused

N, WIDTH, HEADS = 7, 8, 2


@pytest.fixture
def x() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(N, WIDTH, dtype=torch.double)


def layer(**options: float) -> MultiHopAttention:
    torch.manual_seed(1)
    return MultiHopAttention(WIDTH, HEADS, **options).double()  # type: ignore[arg-type]


def random_graph() -> graphs.Graph:
    torch.manual_seed(2)
    return graphs.from_dense(torch.rand(N, N) < 0.4)


def test_alpha_one_is_the_identity(x: torch.Tensor) -> None:
    attention = layer(hops=5, alpha=1.0)
    expected = attention.output(attention.value(x))
    torch.testing.assert_close(attention(x, random_graph()), expected)


def test_many_hops_are_the_inverse_of_personalised_pagerank(x: torch.Tensor) -> None:
    graph, alpha = random_graph().with_self_loops(), 0.15
    matrix = torch.zeros(N, N, dtype=torch.double)
    weight = ew.edge_softmax(torch.randn(graph.num_edges, 1, dtype=torch.double), graph)
    matrix[graph.target, graph.source] = weight[:, 0]
    out = diffuse(x[:, None], graph, weight, hops=300, alpha=alpha)[:, 0]
    identity = torch.eye(N, dtype=torch.double)
    exact = alpha * torch.linalg.solve(identity - (1 - alpha) * matrix, x)
    torch.testing.assert_close(out, exact)


def test_outputs_are_propagated_by_personalised_pagerank(x: torch.Tensor) -> None:
    """Like Z ← .9 Â Z + .1 H of the paper, with the symmetric Â of the graph with self-loops."""
    graph = random_graph()
    adjacency = (graph.dense() | torch.eye(N, dtype=torch.bool)).double()
    degree = adjacency.sum(1)
    weight = adjacency / (degree[:, None] * degree).sqrt()
    expected = x
    for _ in range(4):
        expected = 0.9 * weight @ expected + 0.1 * x
    torch.testing.assert_close(OutputPropagation(4)(x, graph), expected)
    assert OutputPropagation(0)(x, graph) is x


@pytest.mark.parametrize("name", ["magna", "gps", "exphormer", "graph_bert"])
def test_models_propagate_their_outputs(name: str) -> None:
    options = {"pool": "none", "local": "gcn"} if name in ("gps", "exphormer") else {}
    torch.manual_seed(0)
    plain = ew.models.MODELS[name](WIDTH, 3, **options).eval()
    smooth = ew.models.MODELS[name](WIDTH, 3, **options, output_hops=5).eval()
    smooth.load_state_dict(plain.state_dict())
    x, graph = torch.randn(N, WIDTH), random_graph()
    graph = graph | graph.transpose()
    expected = OutputPropagation(5)(plain(x, graph), graph)
    torch.testing.assert_close(smooth(x, graph), expected)


@pytest.mark.parametrize("name", ["gps", "exphormer"])
def test_outputs_of_graphs_are_not_propagated(name: str) -> None:
    with refused("output_hops", expected="0, unless pool is", got="10", remedy="none"):
        ew.models.MODELS[name](WIDTH, 3, output_hops=10)


def test_the_spectrum_of_the_lecture() -> None:
    """An eigenvalue .8 of the attention becomes .15 / (1 - .85 · .8) = .46875."""
    loop = graphs.edges(torch.zeros(2, 1, dtype=torch.long), 1)
    weight, start = torch.full((1, 1), 0.8).double(), torch.ones(1, 1, 1).double()
    assert float(diffuse(start, loop, weight, hops=200, alpha=0.15)) == pytest.approx(0.46875)


def test_diffusion_uses_one_set_of_weights_for_every_hop(x: torch.Tensor) -> None:
    attention, graph = layer(hops=3, alpha=0.2), random_graph().with_self_loops()
    query, key, value = (
        f(x).view(N, HEADS, -1) for f in (attention.query, attention.key, attention.value)
    )
    query = (query.tanh() * attention.att_dst).sum(-1, keepdim=True)
    key = (key.tanh() * attention.att_src).sum(-1, keepdim=True)
    matrix = torch.zeros(HEADS, N, N, dtype=torch.double)
    weights = ew.attention_weights(query, key, graph, score=ew.Additive())
    matrix[:, graph.target, graph.source] = weights.T
    start = out = value.transpose(0, 1)
    for _ in range(3):
        out = 0.8 * matrix @ out + 0.2 * start
    expected = attention.output(out.transpose(0, 1).flatten(1))
    torch.testing.assert_close(attention(x, graph), expected)


def test_one_hop_without_return_is_gat(x: torch.Tensor) -> None:
    """Where tanh is linear: its argument made small and the scores' weights as much larger."""
    attention, gat = layer(hops=1, alpha=0.0), GATLayer(WIDTH, WIDTH // HEADS, HEADS).double()
    small = 1e-5
    with torch.no_grad():
        attention.value.weight.copy_(gat.linear.weight)
        attention.output.weight.copy_(torch.eye(WIDTH))
        for projection in (attention.query, attention.key):
            projection.weight.copy_(gat.linear.weight * small)
        attention.att_dst.copy_(gat.att_dst / small)
        attention.att_src.copy_(gat.att_src / small)
    torch.testing.assert_close(
        attention(x, random_graph()), gat(x, random_graph()), rtol=0, atol=1e-8
    )


def test_dropped_weights_stay_dropped_on_every_hop() -> None:
    """Two nodes, one path: a weight that is dropped once would otherwise come back at the next."""
    attention = layer(hops=6, alpha=0.5)
    attention.dropout = 1.0
    x = torch.randn(N, WIDTH, dtype=torch.double)
    expected = attention.output(0.5 * attention.value(x))
    torch.testing.assert_close(attention(x, random_graph()), expected)
