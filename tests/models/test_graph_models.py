"""Each graph model's layer against its formula, written with dense matrices or loops."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise import graphs
from edgewise.layers import MessagePassing, MultiHeadAttention
from edgewise.models import edge_transformer, gin, gnn, graph_transformer, graphsage, monet
from edgewise.models.edge_transformer import EdgeTransformerLayer
from edgewise.models.gat import GATLayer
from edgewise.models.gatv2 import GATv2Layer
from edgewise.models.gin import GINLayer, JumpingKnowledge
from edgewise.models.monet import MoNetLayer
from tests.errors import refused

N, F_IN, HEADS = 6, 4, 2


@pytest.fixture
def graph() -> graphs.Graph:
    torch.manual_seed(3)
    return graphs.from_dense(torch.rand(N, N) < 0.4)


@pytest.fixture
def x() -> Tensor:
    torch.manual_seed(4)
    return torch.randn(N, F_IN, dtype=torch.double)


def masked_softmax(scores: Tensor, matrix: Tensor) -> Tensor:
    """``[H, N, N]`` over the marked sources of each target, zero where there are none."""
    return scores.masked_fill(~matrix, -torch.inf).softmax(-1).nan_to_num()


def test_graphsage_is_the_mean_and_the_own_map(x: Tensor, graph: graphs.Graph) -> None:
    model = graphsage(F_IN, 3, depth=1).double()
    matrix = graph.dense().double()
    mean = (matrix @ x) / matrix.sum(1, keepdim=True).clamp(min=1)
    layer = model.layers[0]
    expected = mean @ layer.message.weight.T + x @ layer.own.weight.T + layer.own.bias
    torch.testing.assert_close(model(x, graph), expected)


def test_graphsage_at_unit_length(x: Tensor, graph: graphs.Graph) -> None:
    out = graphsage(F_IN, 3, unit_length=True).double()(x, graph)
    torch.testing.assert_close(out.norm(dim=-1), torch.ones(N, dtype=torch.double))


def test_gin_adds_the_neighbours_to_itself(x: Tensor, graph: graphs.Graph) -> None:
    layer = GINLayer(torch.nn.Linear(F_IN, 3)).double()
    torch.nn.init.constant_(layer.epsilon, 0.3)
    expected = layer.network(1.3 * x + graph.dense().double() @ x)
    torch.testing.assert_close(layer(x, graph), expected)


def test_gin_reads_every_depth_and_pools_as_the_paper_does(x: Tensor, graph: graphs.Graph) -> None:
    model = gin(F_IN, 3, width=5, depth=2).double().eval()
    jumping, _, head = model.layers
    depths = [x]
    for layer in jumping.layers:
        depths.append(layer(depths[-1], graph))
    readout = torch.cat([h.sum(0) for h in depths]) @ head.weight.T + N * head.bias
    torch.testing.assert_close(model(x, graph).sum(0), readout)


def test_jumping_knowledge_keeps_every_depth(x: Tensor, graph: graphs.Graph) -> None:
    first, act = MessagePassing(F_IN, 3).double(), torch.nn.ReLU()
    out = JumpingKnowledge(first, act, width=3)(x, graph)
    torch.testing.assert_close(out, torch.cat([x, first(x, graph), first(x, graph).relu()], -1))


def test_gat_drops_weights_and_what_they_weigh() -> None:
    """A node that reads itself alone, by a weight of 1: as a whole, and number by number."""
    layer, alone = GATLayer(F_IN, 50, 1, dropout=0.5), graphs.empty().bind(200)
    x = torch.randn(200, F_IN)
    kept, value = layer(x, alone) != 0, layer.linear(x)
    read = kept.any(1)
    assert 0.35 < read.float().mean() < 0.65  # of 200 draws, four standard deviations
    assert 0.45 < kept[read].float().mean() < 0.55
    torch.testing.assert_close(layer.eval()(x, alone), value)


@pytest.mark.parametrize("average", [True, False])
def test_gat_scores_both_ends_side_by_side(x: Tensor, graph: graphs.Graph, average: bool) -> None:
    layer = GATLayer(F_IN, 3, HEADS, average=average).double()
    value = layer.linear(x).view(N, HEADS, 3)  # W h
    both = torch.cat([layer.att_dst, layer.att_src], -1)  # a, of [W h_v ‖ W h_u]
    scores = torch.empty(HEADS, N, N, dtype=torch.double)
    for v in range(N):
        for u in range(N):
            energy = (both * torch.cat([value[v], value[u]], -1)).sum(-1)
            scores[:, v, u] = F.leaky_relu(energy, 0.2)
    weights = masked_softmax(scores, graph.dense() | torch.eye(N, dtype=torch.bool))
    heads = torch.einsum("hij,jhd->ihd", weights, value)
    expected = (heads.mean(1) if average else heads.flatten(1)) + layer.bias
    torch.testing.assert_close(layer(x, graph), expected)


@pytest.mark.parametrize("average", [True, False])
def test_gatv2_scores_after_the_activation(x: Tensor, graph: graphs.Graph, average: bool) -> None:
    layer = GATv2Layer(F_IN, 3, HEADS, average=average).double()
    query, key = (f(x).view(N, HEADS, 3) for f in (layer.query, layer.key))
    energy = F.leaky_relu(query[:, None] + key[None], 0.2)  # [target, source, H, D]
    scores = (energy * layer.score).sum(-1).permute(2, 0, 1)
    weights = masked_softmax(scores, graph.dense() | torch.eye(N, dtype=torch.bool))
    heads = torch.einsum("hij,jhd->ihd", weights, key)
    expected = (heads.mean(1) if average else heads.flatten(1)) + layer.bias
    torch.testing.assert_close(layer(x, graph), expected)


@pytest.mark.parametrize("given", [True, False])
def test_monet_weighs_by_gaussians(x: Tensor, graph: graphs.Graph, given: bool) -> None:
    layer = MoNetLayer(F_IN, 3, 2).double()
    degree = graph.in_degree().clamp(min=1).double()
    place = torch.stack([degree[graph.target], degree[graph.source]], -1).rsqrt()
    place = torch.randn_like(place) if given else place
    expected = layer.own(x)
    value = layer.linear(x).view(N, 2, 3)
    for edge, (source, target) in enumerate(graph.edge_index.T.tolist()):
        u = (layer.coordinates.weight @ place[edge] + layer.coordinates.bias).tanh()
        for k in range(2):
            weight = torch.exp(-0.5 * ((u - layer.mean[k]) * layer.precision[k]).square().sum())
            expected[target] = expected[target] + weight * value[source, k] / degree[target]
    torch.testing.assert_close(layer(x, graph, place if given else None), expected)


def test_edge_weights_multiply_the_scores(x: Tensor, graph: graphs.Graph) -> None:
    attention = MultiHeadAttention(F_IN, HEADS).double()
    weight = torch.rand(graph.num_edges, dtype=torch.double)
    gain = torch.zeros(N, N, dtype=torch.double)
    gain[graph.target, graph.source] = weight
    query, key, value = attention.qkv(x).view(N, 3, HEADS, -1).unbind(1)
    scores = torch.einsum("ihd,jhd->hij", query, key) * (F_IN // HEADS) ** -0.5 * gain
    heads = torch.einsum("hij,jhd->ihd", masked_softmax(scores, graph.dense()), value)
    expected = attention.output(heads.flatten(1))
    torch.testing.assert_close(attention(x, graph, gain=weight[:, None]), expected)


def test_graph_transformer_takes_the_weights_to_every_layer(x: Tensor, graph: graphs.Graph) -> None:
    model = graph_transformer(F_IN, 3, width=8, depth=2, heads=2).double().eval()
    ones = torch.ones(graph.num_edges, dtype=torch.double)
    torch.testing.assert_close(model(x, graph, edge_attr=ones), model(x, graph))
    h = model.embed(x)
    for layer in model.layers:
        h = layer(h, graph, gain=3 * ones[:, None])
    torch.testing.assert_close(model(x, graph, edge_attr=3 * ones), model.head(h))
    assert not torch.allclose(model(x, graph, edge_attr=3 * ones), model(x, graph))


def test_edge_transformer_scores_with_the_product_of_three(x: Tensor, graph: graphs.Graph) -> None:
    layer = EdgeTransformerLayer(F_IN, HEADS).double().eval()
    edge = torch.randn(graph.num_edges, F_IN, dtype=torch.double)
    query, key, value = (f(x) for f in (layer.query, layer.key, layer.value))
    product = query[graph.target] * key[graph.source] * layer.edge(edge) / (F_IN / HEADS) ** 0.5
    new = torch.zeros_like(x)
    for i in range(N):
        mine = (graph.target == i).nonzero()[:, 0]
        for h in range(HEADS):
            part = slice(h * F_IN // HEADS, (h + 1) * F_IN // HEADS)
            weight = product[mine, part].sum(-1).softmax(0)
            new[i, part] = weight @ value[graph.source[mine]][:, part]
    outs = layer(x, graph, edge)
    nodes = layer.node_network(layer.node_norm(x + layer.node_output(new)))
    edges = layer.edge_network(layer.edge_norm(edge + layer.edge_output(product)))
    torch.testing.assert_close(outs, (nodes, edges))


def test_an_edge_transformer_without_features_has_ones(x: Tensor, graph: graphs.Graph) -> None:
    model = edge_transformer(F_IN, 3, edge_width=2, width=8, depth=2, heads=2).double().eval()
    ones = torch.ones(graph.num_edges, 2, dtype=torch.double)
    torch.testing.assert_close(model(x, graph), model(x, graph, edge_attr=ones))


@pytest.mark.parametrize("focus", ["nodes", "edges"])
def test_an_edge_transformer_is_for_nodes_or_for_edges(
    x: Tensor, graph: graphs.Graph, focus: str
) -> None:
    model = edge_transformer(F_IN, 3, width=8, depth=1, heads=2, focus=focus).double().eval()
    nodes, edges = model.states(x, graph)
    expected = model.head(nodes if focus == "nodes" else edges)
    torch.testing.assert_close(model(x, graph), expected)
    assert len(nodes) == N
    assert len(edges) == graph.num_edges


def test_an_unknown_focus_suggests_the_nearest() -> None:
    with refused("focus", expected="edges", got="'edge'", remedy="did you mean 'edges'"):
        edge_transformer(F_IN, 3, focus="edge")


def test_the_plain_network_sums_its_messages(x: Tensor, graph: graphs.Graph) -> None:
    model = gnn(F_IN, 3, depth=1).double()
    own, message = model.layers[0].own, model.layers[0].message
    expected = own(x) + graph.dense().double() @ message(x)
    torch.testing.assert_close(model(x, graph), expected)


def test_monet_called_on_a_pattern_uses_its_degrees() -> None:
    x = torch.randn(5, F_IN)
    model = monet(F_IN, 2)
    torch.testing.assert_close(model(x, graphs.window(1)), model(x, graphs.window(1).bind(5)))


def test_monet_reads_the_coordinates_that_it_is_given(x: Tensor, graph: graphs.Graph) -> None:
    model = monet(F_IN, 2, edge_width=3).double()
    place = torch.randn(graph.num_edges, 3, dtype=torch.double)
    first, act, last = model.layers
    expected = last(act(first(x, graph, place)), graph, place)
    torch.testing.assert_close(model(x, graph, edge_attr=place), expected)
    missing = f"coordinates of the edges, of shape [{graph.num_edges}, 3]"
    with refused("edge_attr", expected=missing, got="none", remedy="edge_width=2"):
        model(x, graph)
