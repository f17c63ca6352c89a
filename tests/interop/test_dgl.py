"""DGL's layers: state dicts of DGL 2.2.1, and a dense computation of each formula in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import ArgumentError, graphs
from edgewise.graphs import Graph
from edgewise.interop import dgl

SOURCES, TARGETS, IN, IN_TARGET, OUT, HEADS = 6, 4, 5, 3, 2, 3
INDEX = torch.tensor([[0, 1, 2, 3, 4, 5, 5, 0, 0], [0, 0, 1, 2, 3, 3, 2, 1, 0]])
"""Edges to four targets; the first is there twice."""
SQUARE, BIPARTITE = graphs.edges(INDEX, (6, 6)), graphs.edges(INDEX, (6, 4))


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def randomised(layer: nn.Module) -> nn.Module:
    for parameter in layer.double().parameters():
        nn.init.uniform_(parameter, -0.8, 0.8)
    return layer


def features(pair: bool) -> Any:
    x = torch.randn(SOURCES, IN, dtype=torch.float64, requires_grad=True)
    return (x, torch.randn(TARGETS, IN_TARGET).double().requires_grad_()) if pair else x


def softmax(scores: Tensor, graph: Graph) -> Tensor:
    """Weights ``[E, H]``, one target at a time."""
    weights = torch.zeros_like(scores)
    for target in range(graph.num_targets):
        edges = graph.target == target
        weights[edges] = scores[edges].softmax(0)
    return weights


def weighted_sum(weights: Tensor, value: Tensor, graph: Graph) -> Tensor:
    """Sum of ``weights [E, H] * value [N, H, D]`` by a dense matrix for each head."""
    matrix = torch.zeros(graph.num_targets, graph.num_sources, weights.shape[1]).double()
    matrix = matrix.index_put((graph.target, graph.source), weights, accumulate=True)
    return torch.einsum("tsh,shd->thd", matrix, value)


def heads(weight: Tensor, x: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight, bias).view(len(x), -1, OUT)


def gat(layer: Any, graph: Graph, x: Any, edge_weight: Tensor | None = None) -> tuple[Tensor, ...]:
    state = dict(layer.named_parameters())
    source, target = x if isinstance(x, tuple) else (x, x[: graph.num_targets])
    value = heads(state.get("fc.weight", state.get("fc_src.weight")), source)
    query = heads(state.get("fc.weight", state.get("fc_dst.weight")), target)
    energy = (value * layer.attn_l).sum(-1)[graph.source]
    energy = energy + (query * layer.attn_r).sum(-1)[graph.target]
    weights = softmax(F.leaky_relu(energy, 0.2), graph)
    if edge_weight is not None:
        weights = weights * edge_weight[:, None]
    out = weighted_sum(weights, value, graph)
    if "res_fc.weight" in state:
        out = out + heads(state["res_fc.weight"], target, state.get("res_fc.bias"))
    elif layer.res_fc is not None:
        out = out + target.view(len(target), -1, OUT)
    out = out + state["bias"].view(-1, OUT) if "bias" in state else out
    return out, weights


def gatv2(layer: Any, graph: Graph, x: Any) -> tuple[Tensor, ...]:
    source, target = x if isinstance(x, tuple) else (x, x[: graph.num_targets])
    key = heads(layer.fc_src.weight, source, layer.fc_src.bias)
    query = heads(layer.fc_dst.weight, target, layer.fc_dst.bias)
    energy = F.leaky_relu(key[graph.source] + query[graph.target], 0.2)
    weights = softmax((energy * layer.attn).sum(-1), graph)
    out = weighted_sum(weights, key, graph)
    if isinstance(layer.res_fc, nn.Linear):
        out = out + heads(layer.res_fc.weight, target, layer.res_fc.bias)
    return out, weights


def dot_gat(layer: Any, graph: Graph, x: Any) -> tuple[Tensor, ...]:
    state = dict(layer.named_parameters())
    source, target = x if isinstance(x, tuple) else (x, x[: graph.num_targets])
    key = heads(state.get("fc.weight", state.get("fc_src.weight")), source)
    query = heads(state.get("fc.weight", state.get("fc_dst.weight")), target)
    weights = softmax((key[graph.source] * query[graph.target]).sum(-1) / OUT**0.5, graph)
    return weighted_sum(weights, key, graph), weights


def assert_equal(layer: nn.Module, outs: Any, expected: Any, x: Any) -> None:
    """Outputs, and gradients of features and parameters."""
    outs, expected = (o if isinstance(o, tuple) else (o,) for o in (outs, expected))
    inputs = [*(x if isinstance(x, tuple) else (x,)), *layer.parameters()]
    probes = [torch.randn_like(out) for out in expected]
    for out, other in zip(outs, expected, strict=True):
        torch.testing.assert_close(out, other, rtol=0, atol=1e-10)
    gradients = [
        torch.autograd.grad(
            sum((o * p).sum() for o, p in zip(tensors, probes, strict=True)),
            inputs,
            allow_unused=True,
            materialize_grads=True,
            retain_graph=True,
        )
        for tensors in (outs, expected)
    ]
    for grad, other in zip(*gradients, strict=True):
        torch.testing.assert_close(grad, other, rtol=0, atol=1e-10)


ATTENTION: list[tuple[Callable[..., Any], Any, dict[str, Any]]] = [
    (dgl.GATConv, gat, {}),
    (dgl.GATConv, gat, {"residual": True}),
    (dgl.GATConv, gat, {"bias": False}),
    (dgl.GATv2Conv, gatv2, {"residual": True}),
    (dgl.GATv2Conv, gatv2, {"bias": False}),
    (dgl.DotGatConv, dot_gat, {}),
]


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(("layer", "formula", "options"), ATTENTION)
def test_attention(layer: Any, formula: Any, options: dict[str, Any], pair: bool) -> None:
    width = (IN, IN_TARGET) if pair else IN
    built = randomised(layer(width, OUT, HEADS, **options))
    x = features(pair)
    out, weights = formula(built, BIPARTITE, x)
    assert_equal(built, built(BIPARTITE, x), out, x)
    result = built(BIPARTITE, x, get_attention=True)
    assert_equal(built, result, (out, weights[..., None]), x)


def test_gat_with_edge_weights_shared_weights_and_identity_residual() -> None:
    layer = randomised(dgl.GATConv(OUT * HEADS, OUT, HEADS, residual=True, activation=F.elu))
    assert isinstance(layer.res_fc, nn.Identity)
    x = torch.randn(SOURCES, OUT * HEADS, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(9, dtype=torch.float64)
    expected = F.elu(gat(layer, BIPARTITE, x, weight)[0])
    assert_equal(layer, layer(BIPARTITE, x, weight), expected, x)
    several = torch.stack([x, x + 1], dim=1)
    out = layer(BIPARTITE, several, weight)
    assert out.shape == (TARGETS, 2, HEADS, OUT)
    torch.testing.assert_close(out[:, 0], expected)
    layer = randomised(dgl.GATv2Conv(IN, OUT, HEADS, share_weights=True))
    assert_equal(layer, layer(BIPARTITE, x[:, :IN]), gatv2(layer, BIPARTITE, x[:, :IN])[0], x)


@pytest.mark.parametrize("norm", ["none", "both", "right", "left"])
@pytest.mark.parametrize("out", [2, 7])
def test_graph_conv(norm: str, out: int) -> None:
    layer = randomised(dgl.GraphConv(IN, out, norm, allow_zero_in_degree=True))
    x, weight = features(False), torch.rand(9, dtype=torch.float64)
    matrix = torch.zeros(6, 6).double().index_put((INDEX[1], INDEX[0]), weight, accumulate=True)
    degrees = [torch.bincount(row, minlength=6).clamp(min=1).double() for row in INDEX]
    left = {"both": degrees[0] ** -0.5, "left": 1 / degrees[0]}.get(norm, torch.ones(6))
    right = {"both": degrees[1] ** -0.5, "right": 1 / degrees[1]}.get(norm, torch.ones(6))
    expected = (right[:, None] * matrix * left) @ x @ layer.weight + layer.bias
    assert_equal(layer, layer(SQUARE, x, edge_weight=weight), expected, x)
    bare = dgl.GraphConv(IN, out, norm, weight=False, bias=False, allow_zero_in_degree=True)
    torch.testing.assert_close(
        bare(SQUARE, x, layer.weight, weight[:, None]), expected - layer.bias
    )


@pytest.mark.parametrize("out", [2, 7])
@pytest.mark.parametrize("kind", ["mean", "gcn", "pool"])
def test_sage_conv(kind: str, out: int) -> None:
    layer = randomised(dgl.SAGEConv(IN, out, kind, activation=torch.tanh))
    x, weight = features(False), torch.rand(9, dtype=torch.float64) + 0.1
    rows = (layer.fc_pool(x).relu() if kind == "pool" else x)[INDEX[0]] * weight[:, None]
    reduced = []
    for target in range(6):
        messages = rows[INDEX[1] == target]
        if kind == "gcn":
            reduced.append((messages.sum(0) + x[target]) / (len(messages) + 1))
        elif not len(messages):
            reduced.append(0 * x[0])
        else:
            reduced.append(messages.mean(0) if kind == "mean" else messages.amax(0))
    expected = layer.fc_neigh(torch.stack(reduced))
    expected = expected + layer.bias if kind == "gcn" else layer.fc_self(x) + expected
    assert_equal(layer, layer(SQUARE, x, weight), expected.tanh(), x)


@pytest.mark.parametrize("kind", ["add", "mul"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_graphormer(kind: str, norm_first: bool) -> None:
    layer = dgl.GraphormerLayer(6, 8, HEADS, kind, norm_first)
    randomised(layer).eval()
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    bias, mask = torch.randn(2, 5, 5, HEADS).double(), torch.rand(2, 5, 5) < 0.4
    mask[:, :, 0] = False
    inner = layer.attn_layer_norm(x) if norm_first else x
    query, key, value = (
        getattr(layer.attn, f"{name}_proj")(inner).view(2, 5, HEADS, 2) for name in "qkv"
    )
    scores = torch.einsum("bqhd,bkhd->bqkh", query, key) / 2**0.5
    scores = scores + bias if kind == "add" else scores * bias
    weights = scores.masked_fill(mask[..., None], float("-inf")).softmax(2)
    out = layer.attn.out_proj(torch.einsum("bqkh,bkhd->bqhd", weights, value).flatten(2))
    out = x + out if norm_first else layer.attn_layer_norm(x + out)
    network = layer.ffn(layer.ffn_layer_norm(out) if norm_first else out)
    expected = out + network if norm_first else layer.ffn_layer_norm(out + network)
    assert_equal(layer, layer(x, bias, mask), expected, x)
    pattern = graphs.window(1).bind(5)
    is_out = ~pattern.dense().bool()
    edge_bias = bias[:, pattern.target, pattern.source]
    torch.testing.assert_close(
        layer(x, edge_bias, graph=pattern), layer(x, bias, is_out.expand(2, 5, 5))
    )


@pytest.mark.parametrize("edge_update", [True, False])
def test_egt(edge_update: bool) -> None:
    layer = randomised(dgl.EGTLayer(6, 4, HEADS, 1, edge_update=edge_update))
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    edge = torch.randn(2, 5, 5, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.where(torch.rand(2, 5, 5) < 0.3, float("-inf"), 0.0).double()
    mask[:, :, 0] = 0
    query, key, value = layer.qkv_proj(layer.mha_ln_h(x)).view(2, 5, 3, 2, HEADS).unbind(2)
    inner = layer.mha_ln_e(edge)
    scores = torch.einsum("bqdh,bkdh->bqkh", query, key).clamp(-5, 5) + layer.edge_input(inner)
    gates = (layer.gate(inner) + mask[..., None]).sigmoid()
    weights = (scores + mask[..., None]).softmax(2) * gates
    factor = (1 + gates.sum(2)).log()[:, :, None]
    factor = torch.cat([torch.ones_like(factor[:, :1]), factor[:, 1:]], dim=1)
    out = torch.einsum("bqkh,bkdh->bqdh", weights, value) * factor
    nodes = x + layer.node_output(out.flatten(2))
    nodes = nodes + layer.node_ffn(nodes)
    result = layer(x, edge, mask)
    if not edge_update:
        assert_equal(layer, result, nodes, (x, edge))
        return
    edges = edge + layer.edge_output(scores)
    assert_equal(layer, result, (nodes, edges + layer.edge_ffn(edges)), (x, edge))
    pattern = graphs.window(1).bind(5)
    hidden = torch.where(pattern.dense().bool(), 0.0, float("-inf")).double().expand(2, 5, 5)
    dense, on_edges = layer(x, edge, hidden), edge[:, pattern.target, pattern.source]
    sparse = layer(x, on_edges, graph=pattern)
    torch.testing.assert_close(sparse[0], dense[0])
    torch.testing.assert_close(sparse[1], dense[1][:, pattern.target, pattern.source])


def test_edge_softmax() -> None:
    logits = torch.randn(9, 2, 3, dtype=torch.float64)
    flat = logits.flatten(1)
    torch.testing.assert_close(dgl.edge_softmax(SQUARE, logits).flatten(1), softmax(flat, SQUARE))
    expected = softmax(flat, graphs.edges(INDEX.flip(0), 6))
    torch.testing.assert_close(dgl.edge_softmax(SQUARE, logits, norm_by="src").flatten(1), expected)
    chosen = torch.tensor([8, 0, 3])
    out = dgl.edge_softmax(SQUARE, logits[chosen], eids=chosen)
    expected = softmax(flat[chosen], graphs.edges(INDEX[:, chosen], 6))
    torch.testing.assert_close(out.flatten(1), expected)
    for wrong in (logits[:-1], {"r": logits}):
        with pytest.raises(ArgumentError, match="logits"):
            dgl.edge_softmax(SQUARE, wrong)


STATES = {
    "GATConv(5, 2, 3, residual=True)": {
        "attn_l": (1, 3, 2),
        "attn_r": (1, 3, 2),
        "fc.weight": (6, 5),
        "res_fc.bias": (6,),
        "res_fc.weight": (6, 5),
    },
    "GATConv((5, 6), 2, 3, residual=True)": {
        "attn_l": (1, 3, 2),
        "attn_r": (1, 3, 2),
        "bias": (6,),
        "fc_dst.weight": (6, 6),
        "fc_src.weight": (6, 5),
    },
    "GATv2Conv(5, 2, 3, share_weights=True)": {
        "attn": (1, 3, 2),
        "fc_dst.bias": (6,),
        "fc_dst.weight": (6, 5),
        "fc_src.bias": (6,),
        "fc_src.weight": (6, 5),
    },
    "DotGatConv(5, 2, 3)": {"fc.weight": (6, 5)},
    "GraphConv(5, 2)": {"bias": (2,), "weight": (5, 2)},
    "SAGEConv((5, 3), 2, 'pool')": {
        "fc_neigh.weight": (2, 5),
        "fc_pool.bias": (5,),
        "fc_pool.weight": (5, 5),
        "fc_self.bias": (2,),
        "fc_self.weight": (2, 3),
    },
    "SAGEConv(5, 2, 'gcn')": {"bias": (2,), "fc_neigh.weight": (2, 5)},
    "BiasedMHA(6, 3, False)": {f"{n}_proj.weight": (6, 6) for n in ("k", "out", "q", "v")},
}


@pytest.mark.parametrize("call", STATES)
def test_state_dicts_are_dgls(call: str) -> None:
    layer = eval(f"dgl.{call}", {"dgl": dgl})
    assert {n: tuple(p.shape) for n, p in sorted(layer.state_dict().items())} == STATES[call]
    assert all(parameter.isfinite().all() for parameter in layer.parameters())


def test_state_dicts_of_graph_transformers_are_dgls() -> None:
    egt = {name.rsplit(".", 1)[0] for name in dgl.EGTLayer(6, 4, 3, 1).state_dict()}
    networks = {f"{kind}_ffn.{i}" for kind in ("node", "edge") for i in (0, 1, 3)}
    assert egt == networks | {
        *("mha_ln_h", "mha_ln_e", "edge_input", "qkv_proj", "gate", "node_output", "edge_output")
    }
    graphormer = {name.rsplit(".", 1)[0] for name in dgl.GraphormerLayer(6, 8, 3).state_dict()}
    assert graphormer == {
        *("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj", "ffn.0", "ffn.3"),
        *("attn_layer_norm", "ffn_layer_norm"),
    }


def test_older_checkpoints_are_loaded() -> None:
    layer = dgl.GATConv(5, 2, 3, residual=True)
    state = layer.state_dict()
    state["bias"] = state.pop("res_fc.bias") + 1
    layer.load_state_dict(state.copy())
    assert layer.res_fc.bias.equal(state["bias"])
    layer = dgl.SAGEConv(5, 2, "mean")
    state = layer.state_dict()
    state["bias"] = state.pop("fc_self.bias") + 1
    layer.load_state_dict(state.copy())
    assert layer.fc_self.bias.equal(state["bias"])


class DGLGraph:
    """The methods of DGL's class that are called."""

    def __init__(self, index: Tensor, nodes: int, types: int = 1) -> None:
        self.index, self.nodes = index, nodes
        self.canonical_etypes = [("node", f"to{i}", "node") for i in range(types)]

    def num_nodes(self) -> int:
        return self.nodes

    def edges(self) -> tuple[Tensor, Tensor]:
        return self.index[0], self.index[1]


class Block(DGLGraph):
    """A block, whose first sources are its targets."""

    def num_src_nodes(self) -> int:
        return self.nodes

    def num_dst_nodes(self) -> int:
        return TARGETS


def test_graphs_of_dgl() -> None:
    layer, x = randomised(dgl.GATConv(IN, OUT, HEADS, allow_zero_in_degree=True)), features(False)
    graph = DGLGraph(INDEX.int(), SOURCES)
    torch.testing.assert_close(layer(graph, x), layer(SQUARE, x))
    torch.testing.assert_close(layer(Block(INDEX, SOURCES), x), layer(BIPARTITE, x))
    assert dgl.from_dgl(graph) is dgl.from_dgl(graph)
    before = dgl.from_dgl(graph)
    graph.index = INDEX.flip(1)
    assert dgl.from_dgl(graph) is not before
    logits = torch.randn(9, 1, dtype=torch.float64)
    torch.testing.assert_close(
        dgl.edge_softmax(graph, logits.flip(0)).flip(0), softmax(logits, SQUARE)
    )
    assert layer(graphs.window(1), x).shape == (SOURCES, HEADS, OUT)


def test_bad_input_is_named() -> None:
    layer, x = dgl.GATConv(IN, OUT, HEADS), torch.randn(SOURCES, IN)
    with pytest.raises(ArgumentError, match="one edge type"):
        layer(DGLGraph(INDEX, SOURCES, types=2), x)
    with pytest.raises(ArgumentError, match="DGLGraph"):
        layer(INDEX, x)
    with pytest.raises(ArgumentError, match="with_self_loops"):
        layer(SQUARE, x)
    for wrong in (x[:-1], x.long(), (x, x, x), (x, x[:-1])):
        with pytest.raises(ArgumentError, match="feat"):
            layer(BIPARTITE, wrong)
    for narrow in (dgl.GATConv, dgl.GATv2Conv, dgl.DotGatConv):
        with pytest.raises(ArgumentError, match="feat"):
            narrow(IN + 1, OUT, HEADS)(BIPARTITE, x)
    for conv in (dgl.GraphConv(IN + 1, 2), dgl.SAGEConv(IN + 1, 2, "mean")):
        with pytest.raises(ArgumentError, match="feat"):
            conv(BIPARTITE, x)
    for weight in (torch.rand(8), torch.rand(9, 2)):
        with pytest.raises(ArgumentError, match="edge_weight"):
            layer(BIPARTITE, x, weight)
    with pytest.raises(ArgumentError, match="aggregator_type"):
        dgl.SAGEConv(IN, OUT, "lstm")
    with pytest.raises(ArgumentError, match="weight=False"):
        dgl.GraphConv(IN, OUT)(BIPARTITE, x, torch.rand(IN, OUT))


def test_dropout_is_for_training() -> None:
    layer, x = dgl.GATConv(IN, OUT, HEADS, feat_drop=0.5, attn_drop=0.5), torch.randn(SOURCES, IN)
    assert layer.eval()(BIPARTITE, x).equal(layer(BIPARTITE, x))
    assert not layer.train()(BIPARTITE, x).equal(layer(BIPARTITE, x))
    _, weights = layer(BIPARTITE, x, get_attention=True)
    assert (weights == 0).any()
