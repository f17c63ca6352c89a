"""AttnLRP and integrated gradients, beside dense computations that share no code with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import graphs, using_engine
from edgewise.attention.scores import DOT
from edgewise.explain.attribution import Case, Contributions, contributions
from edgewise.layers import GatedFeedForward, MultiHeadAttention, Pool
from edgewise.models import gat, gcn, graphsage

N, WIDTH, HEADS = 6, 8, 2
GRAPH = graphs.edges(
    torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 5, 1, 3], [0, 1, 2, 3, 4, 5, 1, 1, 3, 4, 5]]), N
)


@pytest.fixture(autouse=True)
def in_double() -> Any:
    """Compute in float64, in which equal results differ by rounding only."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.double)
    yield
    torch.set_default_dtype(torch.float)


class Block(nn.Module):
    """Transformer of one layer: embedding, norm, attention, norm, GELU network, mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = MultiHeadAttention(WIDTH, HEADS)
        self.first, self.last = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)
        self.out = nn.Linear(WIDTH, 1)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x + self.attention(self.norms[0](x), GRAPH)
        x = x + self.last(F.gelu(self.first(self.norms[1](x))))
        out: Tensor = self.out(x.mean(0))
        return out


def case_of(score: Any, **fields: Any) -> Case:
    return Case(score, torch.arange(N), [str(node) for node in range(N)], **fields)


def linear_rule(x: Tensor, layer: nn.Linear, out: Tensor, relevance: Tensor) -> Tensor:
    return x * ((relevance / out) @ layer.weight)


def norm_rule(x: Tensor, norm: nn.LayerNorm, relevance: Tensor) -> Tensor:
    """Identity rule for the division; weight, bias and mean are linear."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (x.var(-1, unbiased=False, keepdim=True) + norm.eps).sqrt() * norm.weight
    relevance = relevance * scaled / (scaled + norm.bias)
    of_centred = relevance / centred
    return x * (of_centred - of_centred.mean(-1, keepdim=True))


def dense_relevance(model: Block, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Propagate relevance by the formulas of the paper; return that of nodes and of edges."""
    x = model.embedding.weight[ids]
    normed = model.norms[0](x)
    query, key, value = (
        part.unflatten(-1, (HEADS, -1)).transpose(0, 1)
        for part in model.attention.qkv(normed).chunk(3, -1)  # type: ignore[misc]
    )
    scores = query @ key.mT / (WIDTH // HEADS) ** 0.5
    mask = torch.zeros(N, N, dtype=torch.bool)
    mask[GRAPH.target, GRAPH.source] = True
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    heads = weights @ value
    joined = heads.transpose(0, 1).flatten(1)
    attended = model.attention.output(joined)
    y = x + attended
    normed_y = model.norms[1](y)
    hidden = model.first(normed_y)
    network = model.last(F.gelu(hidden))
    z = y + network
    score = model.out(z.mean(0))

    relevance = z * model.out.weight[0] / N  # gradient × input of the linear output
    assert torch.isclose(relevance.sum() + model.out.bias, score)
    of_y, of_network = relevance * y / z, relevance * network / z
    of_hidden = linear_rule(F.gelu(hidden), model.last, network, of_network)  # identity rule
    of_normed = linear_rule(normed_y, model.first, hidden, of_hidden)
    of_y = of_y + norm_rule(y, model.norms[1], of_normed)  # type: ignore[arg-type]
    of_x, of_attended = of_y * x / y, of_y * attended / y
    of_joined = linear_rule(joined, model.attention.output, attended, of_attended)
    of_heads = of_joined.unflatten(-1, (HEADS, -1)).transpose(0, 1)
    messages = weights[..., None] * value[:, None] * (of_heads / heads)[:, :, None]
    of_weights, of_value = messages.sum(-1) / 2, messages.sum(1) / 2
    of_scores = scores * (of_weights - weights * of_weights.sum(-1, keepdim=True))
    products = query[:, :, None] * key[:, None] * (of_scores / scores)[..., None]
    products = products / 2 / (WIDTH // HEADS) ** 0.5
    of_query, of_key = products.sum(2), products.sum(1)
    of_qkv = torch.cat([r.transpose(0, 1).flatten(1) for r in (of_query, of_key, of_value)], -1)
    qkv: Any = model.attention.qkv
    of_normed = linear_rule(normed, qkv, qkv(normed), of_qkv)
    of_x = of_x + norm_rule(x, model.norms[0], of_normed)  # type: ignore[arg-type]
    return of_x.sum(-1), messages.sum(-1).sum(0)


@pytest.mark.parametrize("engine", ["reference", "dense", "rows"])
def test_relevance_is_that_of_the_formulas_of_the_paper(engine: str) -> None:
    """The products of matrices within an engine are not products of the model."""
    model, ids = Block(), torch.tensor([3, 1, 4, 1, 5, 9])
    expected_nodes, expected_edges = dense_relevance(model, ids)
    with using_engine(engine):
        scores = contributions(case_of(lambda: model(ids)), "relevance")
    torch.testing.assert_close(scores.members.double(), expected_nodes, atol=1e-4, rtol=1e-4)
    by_pair = expected_edges + expected_edges.T
    torch.testing.assert_close(
        scores.edges.double(), by_pair[scores.pairs[0], scores.pairs[1]], atol=1e-4, rtol=1e-4
    )


class WithoutBias(nn.Module):
    """Two layers of attention and a gated network, without biases and, for no score, softmax."""

    def __init__(self, score: Any) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(20, WIDTH), nn.RMSNorm(WIDTH)
        self.attention = MultiHeadAttention(WIDTH, HEADS, score=score, bias=False)
        self.network, self.pool = GatedFeedForward(WIDTH, 12), Pool("mean")

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        x = x + self.attention(self.norm(x), GRAPH)
        x = self.pool(x + self.network(self.norm(x)))
        return x[:1]


def test_relevance_is_conserved_without_biases() -> None:
    model, ids = WithoutBias(None), torch.arange(N)
    members = contributions(case_of(lambda: model(ids)), "relevance").members
    torch.testing.assert_close(members.sum().double(), model(ids).sum(), atol=1e-5, rtol=1e-5)
    # Softmax is no product: its relevance is that of its linear terms only.
    model = WithoutBias(DOT)
    members = contributions(case_of(lambda: model(ids)), "relevance").members
    assert float((members.sum() - model(ids).sum()).detach().abs()) > 1e-4


@pytest.mark.parametrize("make", [gat, gcn, graphsage], ids=["gat", "gcn", "graphsage"])
def test_integrated_gradients_are_complete(make: Any) -> None:
    model, x = make(4, 3).eval(), torch.randn(N, 4)
    graph = GRAPH.without_self_loops()

    def score(x: Tensor = x, graph: graphs.Graph = graph) -> Tensor:
        return model(x, graph)[1:2, 0]

    scores = contributions(case_of(score), "integrated_gradients")
    difference = (score() - score(torch.zeros_like(x))).sum().detach()
    torch.testing.assert_close(scores.members.sum().double(), difference, atol=2e-3, rtol=1e-2)
    if make is graphsage:  # The others have self-loops, whose messages are not listed.
        scores = contributions(case_of(score, by_edge=True), "integrated_gradients")
        alone = graphs.edges(torch.zeros(2, 0, dtype=torch.long), N)
        difference = (score() - score(graph=alone)).sum().detach()
        torch.testing.assert_close(scores.edges.sum().double(), difference, atol=2e-3, rtol=1e-2)


def test_integrated_gradients_are_those_of_autograd_over_a_mask() -> None:
    layers = [nn.Linear(4, 5), nn.Linear(5, 1)]
    x, edge_index = torch.randn(N, 4), GRAPH.without_self_loops().edge_index
    graph = graphs.edges(edge_index, N)

    def masked(mask: Tensor) -> Tensor:
        adjacency = torch.zeros(N, N).index_put((edge_index[1], edge_index[0]), mask)
        hidden = (adjacency @ layers[0](x)).tanh()
        return layers[1](adjacency @ hidden)[1]

    def model() -> Tensor:
        from edgewise import aggregate

        hidden = aggregate(layers[0](x), graph).tanh()
        return layers[1](aggregate(hidden, graph))[1]

    expected, points = torch.zeros(graph.num_edges), 2000
    for point in range(points):
        mask = torch.full((graph.num_edges,), (point + 0.5) / points, requires_grad=True)
        expected += torch.autograd.grad(masked(mask).sum(), mask)[0] / points
    scores = contributions(case_of(model, by_edge=True), "integrated_gradients")
    low, high = edge_index.min(0).values, edge_index.max(0).values
    position = torch.searchsorted(scores.pairs[0] * N + scores.pairs[1], low * N + high)
    by_pair = torch.zeros(len(scores.edges)).index_add(0, position, expected)
    torch.testing.assert_close(scores.edges.double(), by_pair, atol=1e-5, rtol=1e-4)


def test_inputs_are_rows_of_features_and_not_parameters() -> None:
    """A parameter with as many rows as there are nodes is no input."""
    features, weight = torch.randn(N, N), nn.Parameter(torch.randn(N, N))
    layer = MultiHeadAttention(N, 1)
    case = case_of(lambda: layer(features @ weight.t(), GRAPH)[:1, 0])
    scores: Contributions = contributions(case, "integrated_gradients")
    zero = layer(torch.zeros(N, N), GRAPH)[:1, 0]
    difference = (case.score() - zero).sum().detach()
    torch.testing.assert_close(scores.members.sum().double(), difference, atol=1e-3, rtol=1e-2)
