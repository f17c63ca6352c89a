"""What the lectures claim that graph networks can and cannot do."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs
from edgewise.layers import AttentionPool, GraphLayer, Pool
from edgewise.models import NODE_MODELS
from edgewise.models.gat import GATLayer
from edgewise.models.gatv2 import GATv2Layer
from edgewise.models.magna import diffuse

ROOT = Path(__file__).resolve().parent.parent.parent
OVER_SMOOTHING = runpy.run_path(str(ROOT / "examples" / "scripts" / "over_smoothing.py"))
NODES, WIDTH = 6, 4


@pytest.fixture
def molecule() -> tuple[Tensor, Tensor, Tensor]:
    """A symmetric matrix, features, and another order of the nodes."""
    torch.manual_seed(0)
    upper = (torch.rand(NODES, NODES) < 0.5).triu(1)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    return upper | upper.T, torch.randn(NODES, WIDTH), order


@pytest.mark.slow(every=4)
@pytest.mark.parametrize(
    "pool", [Pool("sum"), Pool("mean"), Pool("max"), AttentionPool(3)], ids=repr
)
@pytest.mark.parametrize("name", NODE_MODELS)
def test_a_pooled_graph_network_is_invariant(
    name: str, pool: nn.Module, molecule: tuple[Tensor, Tensor, Tensor]
) -> None:
    matrix, x, order = molecule
    model = NODE_MODELS[name](WIDTH, 3).eval()
    mine = pool(model(x, graphs.from_dense(matrix)))
    other = pool(model(x[order], graphs.from_dense(matrix[order][:, order])))
    torch.testing.assert_close(mine, other)


def test_an_mlp_on_the_adjacency_matrix_is_neither_invariant_nor_equivariant(
    molecule: tuple[Tensor, Tensor, Tensor],
) -> None:
    """The same graph in another order is another input, so that it gets another answer."""
    matrix, _, order = molecule
    mlp = nn.Sequential(nn.Flatten(0), nn.Linear(NODES**2, 32), nn.Tanh(), nn.Linear(32, NODES))
    out, other = (mlp(m.float()) for m in (matrix, matrix[order][:, order]))
    assert (out.sum() - other.sum()).abs() > 1e-3  # one number for the graph
    assert (out[order] - other).abs().max() > 1e-3  # one number for each node


@pytest.mark.slow
def test_over_smoothing_and_its_remedy() -> None:
    """Depth makes GCN and GAT forget which node is which; MAGNA's blocks forget far less.

    By their residuals: with one hop instead of six of diffusion they keep more, at every depth.
    """
    curves = {
        name: OVER_SMOOTHING["curve"](make, [1, 4, 32])
        for name, make in OVER_SMOOTHING["MODELS"].items()
    }
    for name in ("GCN", "GAT"):
        first, fourth, last = curves[name]
        assert last < 1e-3 * fourth < 1e-3 * first, name
    assert curves["MAGNA"][-1] > 0.02 * curves["MAGNA"][0]
    assert curves["MAGNA"][-1] > 1000 * max(curves["GCN"][-1], curves["GAT"][-1])
    one_hop = curves["MAGNA's block, one hop"]
    assert all(one > many for one, many in zip(one_hop, curves["MAGNA"], strict=True))
    assert one_hop[-1] > 3 * curves["MAGNA"][-1]


def test_diffusion_alone_keeps_what_repeated_attention_forgets() -> None:
    """The same weights, 64 hops: with alpha the start stays in, without it nothing does."""
    graph, energy = OVER_SMOOTHING["two_rings"](0), OVER_SMOOTHING["dirichlet_energy"]
    x = torch.randn(graph.num_targets, 1, 8, dtype=torch.double)
    weight = ew.edge_softmax(torch.randn(graph.num_edges, 1, dtype=torch.double), graph)
    start, forgotten, kept = (
        energy(diffuse(x, graph, weight, hops=hops, alpha=alpha)[:, 0], graph)
        for hops, alpha in ((0, 0.0), (64, 0.0), (64, 0.2))
    )
    assert forgotten < 1e-6 * start
    assert kept > 0.1 * start


def test_the_distance_of_nodes_is_the_mean_over_all_pairs() -> None:
    x = torch.randn(7, 3, dtype=torch.double) + 1
    pairs = (x[:, None] - x).square().sum(-1).mean() / x.square().sum(1).mean() / 2
    assert OVER_SMOOTHING["pairwise_distance"](x) == pytest.approx(float(pairs))
    assert OVER_SMOOTHING["pairwise_distance"](x[:1].expand(5, 3)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("kind", OVER_SMOOTHING["KINDS"], ids=str)
def test_a_layer_differs_in_residual_and_diffusion_alone(kind: Any) -> None:
    torch.manual_seed(0)
    graph, width = graphs.window(1).bind(9).without_self_loops(), OVER_SMOOTHING["HIDDEN"]
    layer = OVER_SMOOTHING["Layer"](kind).double()
    x = torch.randn(graph.num_targets, width, dtype=torch.double)
    value, loops = layer.linear(x), graph.dense() | torch.eye(graph.num_targets, dtype=torch.bool)
    if kind.attention:
        scores = (value @ layer.att_dst.T) + (value @ layer.att_src.T).T
        weight = F.leaky_relu(scores, 0.2).masked_fill(~loops, -torch.inf).softmax(1)
    else:
        degree = loops.sum(1).double()
        weight = loops / (degree[:, None] * degree).sqrt()
    hops, alpha = (4, 0.1) if kind.diffusion else (1, 0.0)
    read = value
    for _ in range(hops):
        read = (1 - alpha) * weight @ read + alpha * value
    expected = (read + layer.bias).relu() + x * kind.residual
    torch.testing.assert_close(layer(x, graph), expected)


def dictionaries(size: int, count: int) -> tuple[Tensor, Tensor, graphs.Graph]:
    """DictionaryLookup (Brody et al., 2022): each query node asks for the value of its key.

    Node features are two classes, key and value; the value of a query is ``size``, unknown. Each
    query reads all the keys of its own dictionary.
    """
    key = torch.arange(size).repeat(count, 2)
    value = torch.full((count, 2 * size), size)
    answers = torch.stack([torch.randperm(size) for _ in range(count)])
    value[:, :size] = answers
    source, target = torch.cartesian_prod(torch.arange(size), torch.arange(size, 2 * size)).T
    member = torch.stack([source, target])[:, None] + 2 * size * torch.arange(count)[None, :, None]
    graph = graphs.edges(member.flatten(1), 2 * size * count)
    return torch.stack([key.flatten(), value.flatten()]), answers, graph


class Lookup(GraphLayer):
    """Embeddings of key and value, one layer of attention with one head, and the answer."""

    def __init__(self, layer: type[GATLayer] | type[GATv2Layer], size: int, width: int) -> None:
        super().__init__()
        self.key, self.value = nn.Embedding(size, width), nn.Embedding(size + 1, width)
        self.attention, self.answer = layer(width, width, 1), nn.Linear(width, size)

    def forward(self, classes: Tensor, graph: graphs.Graph) -> Tensor:
        h = self.attention(self.key(classes[0]) + self.value(classes[1]), graph)
        out: Tensor = self.answer(h.relu())
        return out


def accuracy_after_training(layer: type[GATLayer] | type[GATv2Layer], steps: int) -> float:
    """On dictionaries that it was trained on, as in the paper: can it fit them at all?"""
    torch.manual_seed(0)
    size, count = 10, 100
    classes, answers, graph = dictionaries(size, count)
    model = Lookup(layer, size, 32)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    rate = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    for _ in range(steps):
        out = model(classes, graph).view(count, 2 * size, size)[:, size:]
        loss = F.cross_entropy(out.flatten(0, 1), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rate.step()
    return float((out.argmax(-1) == answers).float().mean())


@pytest.mark.slow
def test_gatv2_looks_up_a_dictionary_and_gat_cannot() -> None:
    assert accuracy_after_training(GATv2Layer, 300) > 0.99
    assert accuracy_after_training(GATLayer, 300) < 0.7


def rankings(layer: GATLayer | GATv2Layer, nodes: int) -> Tensor:
    """``[targets, sources]``, the order in which each node attends to all, the same and itself."""
    x = torch.randn(nodes, 4)
    shape = (layer.heads, -1)
    if isinstance(layer, GATLayer):
        value = layer.linear(x).unflatten(-1, shape)
        query, key = ((value * a).sum(-1, keepdim=True) for a in (layer.att_dst, layer.att_src))
        score = ew.Additive()
    else:
        query, key = (f(x).unflatten(-1, shape) for f in (layer.query, layer.key))
        score = ew.Additive(weight=layer.score)
    scores = ew.edge_scores(query, key, graphs.complete(), score=score)
    return scores.view(nodes, nodes).argsort(-1)


def test_gat_ranks_alike_for_every_query_and_gatv2_does_not() -> None:
    torch.manual_seed(1)
    gat = rankings(GATLayer(4, 8, 1), 20)
    assert (gat == gat[0]).all()
    gatv2 = rankings(GATv2Layer(4, 8, 1), 20)
    assert len(gatv2[:, -1].unique()) > 1  # who is attended to most depends on who asks
