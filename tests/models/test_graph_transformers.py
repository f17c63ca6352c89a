"""Graphormer and GPS against their formulas and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import aggregate, encodings, graphs, models
from edgewise.app.train import PackedGraphs
from edgewise.attention.biases import TableBias
from edgewise.layers import MultiHeadAttention
from edgewise.models.gat import GATLayer
from edgewise.models.gcn import GCNLayer
from edgewise.models.gps import GINELayer, GPSLayer
from edgewise.models.graph_encoder import Position
from tests.errors import refused
from tests.layers.test_sparse import sparse

WIDTH, HEADS, EDGE = 8, 2, 3
SIZES = (4, 1, 6)


def packed(seed: int = 0) -> tuple[Tensor, graphs.Graph, Tensor]:
    """Node features, a packed graph of three, and features of its edges, in float64."""
    generator = torch.Generator().manual_seed(seed)
    nodes, index, edges = [], [], []
    for n in SIZES:
        upper = (torch.rand(n, n, generator=generator) < 0.5).triu(1)
        both = (upper | upper.T).nonzero().T
        nodes.append(torch.randn(n, WIDTH, dtype=torch.double, generator=generator))
        index.append(both)
        edges.append(torch.randn(both.shape[1], EDGE, dtype=torch.double, generator=generator))
    x, graph, _, edge_attr = PackedGraphs.of(nodes, index, edges).take(torch.arange(len(SIZES)))
    return x, graph, edge_attr


@pytest.mark.parametrize("with_local", [True, False])
def test_a_gps_layer_is_the_one_of_pyg(with_local: bool) -> None:
    theirs = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    conv = theirs.GINEConv(network, train_eps=True, edge_dim=EDGE) if with_local else None
    peer = theirs.GPSConv(WIDTH, conv, heads=HEADS).double()
    local = GINELayer(WIDTH, EDGE) if with_local else None
    layer = GPSLayer(WIDTH, local, HEADS).double()
    copy_gps(peer, layer)
    x, graph, edge_attr = packed()
    owner = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
    pairs = graphs.batch(graphs.complete(), SIZES)
    grads, outs = [], []
    for call in (
        lambda x: layer(x, graph, pairs, edge_attr),
        lambda x: (
            peer(x, graph.edge_index, owner, edge_attr=edge_attr)
            if with_local
            else peer(x, graph.edge_index, owner)
        ),
    ):
        leaf = x.clone().requires_grad_()
        outs.append(call(leaf))
        grads.append(torch.autograd.grad(outs[-1].sin().sum(), leaf)[0])
    torch.testing.assert_close(outs[0], outs[1], rtol=0, atol=1e-12)
    torch.testing.assert_close(grads[0], grads[1], rtol=0, atol=1e-12)


def copy_gps(peer: nn.Module, layer: GPSLayer) -> None:
    """Other weights than at the beginning, the same in both."""
    for parameter in peer.parameters():
        nn.init.normal_(parameter, std=0.5)
    weights = {
        "attention.qkv.weight": peer.attn.in_proj_weight,
        "attention.qkv.bias": peer.attn.in_proj_bias,
        "attention.output.weight": peer.attn.out_proj.weight,
        "attention.output.bias": peer.attn.out_proj.bias,
    }
    for ours, other in (("local_norm", "norm1"), ("attention_norm", "norm2"), ("norm", "norm3")):
        for name, value in getattr(peer, other).module.state_dict().items():
            weights[f"{ours}.{name}"] = value
    for name, value in peer.mlp.state_dict().items():
        weights[f"network.{name}"] = value
    if layer.local is not None:
        weights["local.epsilon"] = peer.conv.eps.reshape(())
        for name, value in peer.conv.nn.state_dict().items():
            weights[f"local.network.{name}"] = value
        for name, value in peer.conv.lin.state_dict().items():
            weights[f"local.edge.{name}"] = value
    layer.load_state_dict(weights)


def mean_by_bias(graph: graphs.Graph, value: Tensor) -> Tensor:
    """Attention to all, without queries, and a bias of 0 at distance 1 and -∞ elsewhere."""
    layer = MultiHeadAttention(WIDTH, HEADS).double()
    with torch.no_grad():
        layer.qkv.weight.zero_()
        layer.qkv.bias.zero_()
        layer.qkv.weight[2 * WIDTH :] = torch.eye(WIDTH)
        layer.output.weight.copy_(torch.eye(WIDTH))
        layer.output.bias.zero_()
    distance = encodings.ShortestPath(HEADS, 4).double()
    with torch.no_grad():
        distance.table.fill_(-torch.inf)
        distance.table[1] = 0
    sizes = encodings.members.member_sizes(graph)
    pairs = graphs.batch(graphs.complete(), sizes)
    out: Tensor = layer(value, pairs, **distance(distance.code(graph)))
    return out


def test_graphormers_bias_makes_mean_aggregation_and_by_degree_the_sum() -> None:
    x, graph, _ = packed(1)
    expected = aggregate(x.unsqueeze(-2), graph, reduce="mean").squeeze(-2)
    mean = mean_by_bias(graph, x)
    torch.testing.assert_close(mean, expected, rtol=0, atol=1e-12)
    total = aggregate(x.unsqueeze(-2), graph).squeeze(-2)
    degree = graph.in_degree()[:, None]
    torch.testing.assert_close(mean * degree, total, rtol=0, atol=1e-12)


def test_path_edges_are_a_mean_along_the_way() -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4)  # 3 reads 2 reads 1 reads 0
    edge_attr = torch.randn(3, EDGE, dtype=torch.double)
    encoding = encodings.PathEdges(EDGE, HEADS, max_path_length=2).double()
    bias = encoding(encoding.code(graph), edge_attr).view(4, 4, HEADS)
    weight = encoding.weight
    torch.testing.assert_close(bias[1, 0], edge_attr[0] @ weight[0])
    torch.testing.assert_close(
        bias[2, 0], (edge_attr[1] @ weight[0] + edge_attr[0] @ weight[1]) / 2
    )
    torch.testing.assert_close(
        bias[3, 0], (edge_attr[2] @ weight[0] + edge_attr[1] @ weight[1]) / 2
    )
    assert not bias[0].any()


def test_graphormer_by_its_formula() -> None:
    """Two layers on one graph, with a dense matrix of scores.

    One layer is not enough: the output is read from the virtual node, whose own biases are all
    equal, so the first layer's biases reach the output only through the second layer.
    """
    torch.manual_seed(0)
    model = models.graphormer(
        WIDTH, 2, edge_width=EDGE, width=WIDTH, depth=2, heads=HEADS, max_distance=3
    )
    model = model.double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    _, graph, _ = packed(2)
    inside = (graph.source >= 5) & (graph.target >= 5)
    graph = graphs.edges(graph.edge_index[:, inside] - 5, 6)
    x = torch.randn(6, WIDTH, dtype=torch.double)
    edge_attr = torch.randn(graph.num_edges, EDGE, dtype=torch.double)

    degree = encodings.degrees(graph)
    nodes = model.embed(x) + model.centrality.reads(degree[:, 0])
    nodes = nodes + model.centrality.read_by(degree[:, 1])
    states = torch.cat([model.special[None], nodes])
    steps = encodings.shortest_paths(graph).view(6, 6)
    steps = torch.where(steps < 0, 4, steps.clamp(max=3))
    bias = model.special_bias.expand(7, 7, HEADS).clone()
    bias[1:, 1:] = model.distance.table[steps]
    bias[1:, 1:] += model.path(model.path.code(graph), edge_attr).view(6, 6, HEADS)
    for layer in model.layers:
        attention = layer.attention.sublayer
        joint = attention.qkv(layer.attention.norm(states)).view(7, 3, HEADS, -1)
        query, key, value = joint.unbind(1)
        scores = torch.einsum("ihd,jhd->ijh", query, key) * query.shape[-1] ** -0.5 + bias
        read = torch.einsum("ijh,jhd->ihd", scores.softmax(1), value).flatten(1)
        states = states + attention.output(read)
        states = states + layer.feed_forward.sublayer(layer.feed_forward.norm(states))
    expected = model.head(model.norm(states[0]))
    torch.testing.assert_close(model(x, graph, edge_attr=edge_attr), expected)


@pytest.mark.parametrize("kinds", [2, 1000])
@pytest.mark.parametrize("differentiable", [False, True])
def test_graphormers_table_holds_the_bias_of_every_pair(kinds: int, differentiable: bool) -> None:
    """The sum of both encodings, with equal gradients, whether edge features repeat or not."""
    model = models.graphormer(WIDTH, 2, edge_width=EDGE, width=WIDTH, heads=HEADS, max_distance=3)
    model = model.double()
    nn.init.normal_(model.special_bias)
    _, graph, _ = packed(2)
    known = torch.randn(kinds, EDGE, dtype=torch.double)
    edge_attr = known[torch.randint(kinds, (graph.num_edges,))].requires_grad_(differentiable)
    given = [model.distance.table, model.path.weight, model.special_bias]
    given += [edge_attr] if differentiable else []

    sizes = encodings.members.member_sizes(graph)
    distances, paths = model.distance.code(graph), model.path.code(graph)
    real = model.distance.table[distances] + model.path(paths, edge_attr)
    expected, first = [], 0
    for n in sizes.tolist():
        one = model.special_bias.expand(n + 1, n + 1, HEADS).clone()
        one[1:, 1:] = real[first : first + n * n].view(n, n, HEADS)
        expected.append(one.flatten(0, 1))
        first += n * n
    found = model.bias(graph, edge_attr)
    assert isinstance(found, TableBias)
    assert differentiable or kinds > 2 or len(found.table) < len(distances) // 2
    torch.testing.assert_close(found.expand(), torch.cat(expected))
    weight = torch.randn_like(found.expand())
    grads = torch.autograd.grad((found.expand() * weight).sum(), given)
    others = torch.autograd.grad((torch.cat(expected) * weight).sum(), given)
    torch.testing.assert_close(grads, others)


@pytest.mark.parametrize("name", ["gps", "graphormer"])
def test_codes_may_be_computed_before(name: str) -> None:
    torch.manual_seed(0)
    model = models.MODELS[name](WIDTH, 2, edge_width=EDGE, width=WIDTH, depth=2, heads=HEADS)
    model = model.double().eval()
    x, graph, edge_attr = packed()
    if name == "gps":
        given = {"positions": model.position.code(graph)}
    else:
        given = {"distances": model.distance.code(graph), "paths": model.path.code(graph)}
    known = model(x, graph, batch=SIZES, edge_attr=edge_attr, **given)
    torch.testing.assert_close(known, model(x, graph, batch=SIZES, edge_attr=edge_attr))
    plain = graphs.edges(graph.edge_index, sum(SIZES))  # which does not know its members
    torch.testing.assert_close(known, model(x, plain, batch=SIZES, edge_attr=edge_attr))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("make", [models.gps, models.exphormer])
@pytest.mark.parametrize("position", get_args(Position))
def test_positions_are_chosen_by_name(make: Callable[..., nn.Module], position: Position) -> None:
    """Random features differ in every call, so they are not precomputed."""
    torch.manual_seed(0)
    model: Any = make(WIDTH, 2, position=position, position_size=4).double().eval()
    x, graph, _ = packed()
    fixed = position not in ("random", "none")
    assert list(model.encodings()) == ["positions"] * fixed
    outs = [model(x, graph, batch=list(SIZES)) for _ in range(2)]
    assert torch.equal(*outs) == (position != "random")
    if position != "none":
        assert type(model.position) is encodings.POSITIONS[position]
    if fixed:
        code = model.position.code(graph)
        torch.testing.assert_close(model(x, graph, batch=list(SIZES), positions=code), outs[0])


def test_attention_of_gps_may_be_on_any_graph() -> None:
    torch.manual_seed(0)
    x, graph, edge_attr = packed()
    build = lambda pattern: models.gps(  # noqa: E731
        WIDTH, 2, edge_width=EDGE, width=WIDTH, depth=1, heads=HEADS, attention_graph=pattern
    )
    every, window = build(graphs.complete()), build(graphs.window(1))
    window.load_state_dict(every.state_dict())
    wide = build(graphs.window(9))
    wide.load_state_dict(every.state_dict())
    outs = [
        model.double().eval()(x, graph, batch=SIZES, edge_attr=edge_attr)
        for model in (every, wide, window)
    ]
    torch.testing.assert_close(outs[0], outs[1])
    assert (outs[0] - outs[2]).abs().max() > 1e-6


def test_exphormer_reads_edges_expander_and_virtual_nodes_of_each_graph() -> None:
    torch.manual_seed(0)
    _x, graph, edge_attr = packed()
    model = models.exphormer(
        WIDTH, 2, edge_width=EDGE, width=WIDTH, depth=1, heads=HEADS, degree=4, virtual=2
    )
    virtual, nodes, local, found, kinds = model.build_graphs(graph)
    assert virtual.tolist() == [0, 1, 6, 7, 9, 10]
    assert torch.equal(local.edge_index, nodes[graph.edge_index])
    assert model.build_graphs(graph)[3] is found
    expected = torch.zeros(17, 17, dtype=torch.long)
    first = 0
    for number, n in enumerate(SIZES):
        inner = slice(first + 2, first + 2 + n)
        own = torch.isin(graph.target, nodes.eq(inner.start).nonzero()[0] + torch.arange(n))
        for source, target in nodes[graph.edge_index[:, own]].T.tolist():
            expected[target, source] += 1
        for source, target in graphs.expander(4).bind(n).edge_index.T.tolist():
            expected[inner.start + target, inner.start + source] += 1
        expected[inner, first : first + 2] += 1
        expected[first : first + 2, inner] += 1
        first += 2 + n
        assert number < 3
    counted = torch.zeros_like(expected)
    counted.index_put_((found.target, found.source), torch.ones(1, dtype=torch.long), True)
    assert torch.equal(counted, expected)
    assert kinds.bincount().tolist() == [
        graph.num_edges,
        sum(graphs.expander(4).bind(n).num_edges for n in SIZES),
        2 * sum(SIZES),
        2 * sum(SIZES),
    ]
    features = model.edge_features(edge_attr, kinds)
    assert torch.equal(features[: graph.num_edges, :EDGE], edge_attr)
    assert not features[graph.num_edges :, :EDGE].any()


def test_exphormer_without_expander_and_virtual_nodes_attends_along_edges_as_gps_may() -> None:
    """With its edges' weights 0 it is GPS whose attention graph is the input graph."""
    torch.manual_seed(0)
    x, graph, edge_attr = packed()
    sizes = {"edge_width": EDGE, "width": WIDTH, "depth": 2, "heads": HEADS}
    model = models.exphormer(WIDTH, 2, degree=0, virtual=0, **sizes).double().eval()
    with torch.no_grad():
        for weight in model.edge:
            weight.zero_()
    x_of = model.position(model.embed(x), model.position.code(graph))
    for layer in model.layers:
        x_of = layer(x_of, graph, graph, edge_attr)
    expected = model.head(model.pool(x_of, SIZES))
    found = model(x, graph, edge_attr=edge_attr, batch=SIZES)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [models.gps, models.exphormer])
def test_each_node_has_an_output_where_nothing_is_pooled(make: Callable[..., nn.Module]) -> None:
    torch.manual_seed(0)
    x, graph, _ = packed()
    x = F.dropout(x, 0.7)
    model = make(x.shape[1], 2, width=WIDTH, depth=1, heads=HEADS, pool="none").double().eval()
    found = model(x, graph, batch=SIZES)
    assert found.shape == (len(x), 2)
    torch.testing.assert_close(model(sparse(x), graph, batch=SIZES), found)
    pooled = make(x.shape[1], 2, width=WIDTH, depth=1, heads=HEADS, pool="sum").double().eval()
    pooled.load_state_dict(model.state_dict())
    pooled.head = nn.Identity()
    model.head = nn.Identity()
    nodes = model(x, graph, batch=SIZES).split(list(SIZES))
    expected = torch.stack([one.sum(0) for one in nodes])
    torch.testing.assert_close(pooled(x, graph, batch=SIZES), expected)


def test_exphormer_of_many_nodes_makes_no_pairs() -> None:
    n = 20_000
    model = models.exphormer(4, 2, width=8, depth=1, heads=2, position="none")
    ring = graphs.window(1).bind(n).without_self_loops()
    model(torch.randn(n, 4), ring).sum().backward()
    found = model.build_graphs(ring)[3]
    assert found.num_edges < 9 * n


def test_each_group_of_heads_reads_along_its_own_graph() -> None:
    """A layer by hand, a head at a time, on the matrix of the graph that it has."""
    torch.manual_seed(0)
    model = models.multi_graph_transformer(WIDTH, 2, edge_width=2, width=WIDTH, depth=1, heads=4)
    model = model.double().eval()
    n = 6
    both = torch.rand(2, n, n) < 0.4
    both[:, 0] = False  # reads nobody
    both[1, 1] = False  # reads nobody in the second graph
    both[0, 1, 2] = True
    target, source = both.any(0).nonzero().T
    graph, flags = graphs.edges(torch.stack([source, target]), n), both[:, target, source].T
    x = torch.randn(n, WIDTH, dtype=torch.double)

    h = model.embed(x)
    (layer,) = model.layers
    attention = layer.attention.sublayer
    query, key, value = attention.qkv(h).view(n, 3, 4, -1).unbind(1)
    heads = []
    for head in range(4):
        scores = query[:, head] @ key[:, head].T * query.shape[-1] ** -0.5
        weight = scores.masked_fill(~both[head // 2], -torch.inf).softmax(1).nan_to_num()
        heads.append(weight @ value[:, head])
    h = layer.attention.norm(h + attention.output(torch.cat(heads, dim=1)))
    h = layer.feed_forward.norm(h + layer.feed_forward.sublayer(h))
    expected = model.head(torch.cat([h.mean(0), h.amax(0)]))
    found = model(x, graph, edge_attr=flags.double())
    torch.testing.assert_close(found.flatten(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("local", ["gcn", "gat", "none"])
def test_the_layer_for_the_neighbours_is_that_of_its_model(local: Any) -> None:
    torch.manual_seed(0)
    x, graph, _ = packed()
    sizes = {"width": WIDTH, "depth": 1, "heads": HEADS}
    model = models.gps(x.shape[1], 2, local=local, norm="layer", pool="none", **sizes)
    (layer,) = model.double().eval().layers
    norms = [layer.norm, layer.local_norm, layer.attention_norm]
    assert all(isinstance(norm, nn.LayerNorm) for norm in norms)
    h = model.embed_with_positions(x, graph, None)
    pairs = graphs.batch(graphs.complete(), SIZES)
    expected = layer.attention_norm(h + layer.attention(h, pairs))
    kind = {"gcn": GCNLayer, "gat": GATLayer, "none": type(None)}[local]
    assert type(layer.local) is kind
    if layer.local is not None:
        expected = expected + layer.local_norm(h + layer.local(h, graph))
    expected = model.head(layer.norm(expected + layer.network(expected)))
    torch.testing.assert_close(model(x, graph, batch=SIZES), expected, rtol=0, atol=1e-12)
    if local != "none":
        with refused(
            "local",
            expected="gine",
            got=f"{local}, with edge_width=3",
            remedy="without edge features",
        ):
            models.gps(4, 2, edge_width=3, local=local)


def test_dropout_is_of_the_input_too() -> None:
    torch.manual_seed(0)
    x, graph, _ = packed()
    model = models.gps(x.shape[1], 2, depth=0, position="none", dropout=0.5, pool="none").double()
    model.head = nn.Identity()
    drawn = {str(model(x, graph).tolist()) for _ in range(5)}
    assert len(drawn) == 5
    torch.testing.assert_close(model.eval()(x, graph), model.embed(x))


@pytest.mark.parametrize("name", ["esa", "exphormer", "grit", "polynormer", "token_gt"])
def test_inputs_with_leading_dimensions_are_refused(name: str) -> None:
    model = getattr(models, name)(WIDTH, 2)
    with refused("x", expected="[N, F]", got="[2, 3, 8]", remedy="graphs.batch"):
        model(torch.randn(2, 3, WIDTH), graphs.window(1))
