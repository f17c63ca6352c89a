"""R-GCN and HGT compared with PyTorch Geometric, and a Transformer compared with its formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgewise import explain, graphs, layers, models
from edgewise.models.hgt import HGTLayer
from edgewise.models.rgcn import RGCNLayer
from edgewise.models.typed_transformer import TypedAttention
from tests.errors import refused

pyg = pytest.importorskip("torch_geometric.nn")

SIZES = {"a": 4, "b": 5, "c": 3}
RELATIONS = [("a", "to", "b"), ("b", "back", "a"), ("b", "to", "b"), ("c", "of", "a")]


def typed() -> graphs.TypedGraph:
    torch.manual_seed(0)
    edges = {
        (s, name, t): torch.stack([torch.randint(SIZES[s], (7,)), torch.randint(SIZES[t], (7,))])
        for s, name, t in RELATIONS
    }
    return graphs.typed(edges, SIZES)


def assert_same(outs: list[Tensor], wanted: list[list[Tensor]]) -> None:
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-5, atol=1e-5)
    probe = torch.randn_like(outs[0])
    pairs = (torch.autograd.grad((o * probe).sum(), w) for o, w in zip(outs, wanted, strict=True))
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bases", [0, 2])
def test_rgcn_is_pygs(bases: int) -> None:
    graph = typed()
    layer = RGCNLayer(6, 3, 4, bases)
    other = pyg.RGCNConv(6, 3, 4, num_bases=bases or None)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(12, 6, requires_grad=True)
    outs = [layer(x, graph), other(x, graph.edge_index, graph.edge_type)]
    weights = dict(layer.named_parameters()), dict(other.named_parameters())
    assert_same(outs, [[x, *(named[name] for name in weights[0])] for named in weights])


def as_pyg(layer: HGTLayer, graph: graphs.TypedGraph) -> nn.Module:
    """PyG's layer with the weights of ours."""
    conv = pyg.HGTConv(8, 8, (list(SIZES), RELATIONS), heads=2)
    state: dict[str, Any] = {}
    for t, name in enumerate(SIZES):
        maps = layer.key, layer.query, layer.value
        state[f"kqv_lin.lins.{name}.weight"] = torch.cat([m.weight[t].T for m in maps])
        state[f"kqv_lin.lins.{name}.bias"] = torch.cat([m.bias[t] for m in maps])
        state[f"out_lin.lins.{name}.weight"] = layer.output.weight[t].T
        state[f"out_lin.lins.{name}.bias"] = layer.output.bias[t]
        state[f"skip.{name}"] = layer.skip[t : t + 1]
    for r, relation in enumerate(graph.relations):
        state[f"p_rel.{'__'.join(relation)}"] = layer.priority[r : r + 1]
    for name, weight in (("k_rel", layer.key_map), ("v_rel", layer.value_map)):
        state[f"{name}.weight"] = weight.transpose(0, 1).flatten(0, 1)
    conv.load_state_dict(state)
    return conv


def test_hgt_is_pygs() -> None:
    graph = typed()
    layer = HGTLayer(8, 2, 4, 3, 0.0)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -0.8, 0.8)
    conv = as_pyg(layer, graph)
    x = torch.randn(12, 8, requires_grad=True)
    starts = {"a": 0, "b": 4, "c": 9}
    index = {
        (s, name, t): graph.select(graph.edge_type == r).edge_index
        - torch.tensor([[starts[s]], [starts[t]]])
        for r, (s, name, t) in enumerate(graph.relations)
    }
    out = conv(graph.unpack(x), index)
    is_target = torch.arange(12) < 9  # PyG has no output for type c, which is no target.
    outs = [layer(x, graph)[is_target], torch.cat([out["a"], out["b"]])]
    probe = torch.randn(9, 8)
    grads = [
        torch.autograd.grad((out * probe).sum(), (x, weight))
        for out, weight in zip(outs, (layer.key_map, conv.k_rel.weight), strict=True)
    ]
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads[0][0], grads[1][0], rtol=1e-5, atol=1e-5)
    key_map_grad = grads[0][1].transpose(0, 1).flatten(0, 1)
    torch.testing.assert_close(key_map_grad, grads[1][1], rtol=1e-5, atol=1e-5)


def test_typed_attention_is_its_formula() -> None:
    graph = typed()
    layer, x = TypedAttention(8, 2, 4).double(), torch.randn(12, 8, dtype=torch.double)
    nn.init.normal_(layer.bias)
    x.requires_grad_()
    query, key, value = (rows.unflatten(-1, (2, 4)) for rows in layer.qkv(x).chunk(3, -1))
    outs = []
    for node in range(12):
        into = graph.target == node
        source, relation = graph.source[into], graph.edge_type[into]
        keys, values = key[source] + layer.key_vector[relation], value[source]
        scores = (query[node] * keys).sum(-1) / 2 + layer.bias[relation]
        values = values + layer.value_vector[relation]
        outs.append((scores.softmax(0)[..., None] * values).sum(0).flatten())
    expected = layer.output(torch.stack(outs))
    wanted = [x, layer.key_vector, layer.value_vector, layer.bias, layer.qkv.weight]
    assert_same([layer(x, graph), expected], [wanted, wanted])


@pytest.mark.parametrize("name", ["rgcn", "hgt", "typed_transformer"])
def test_relations_matter_and_their_order_does_not(name: str) -> None:
    graph, options = typed(), {} if name == "rgcn" else {"node_types": 3}
    model = models.MODELS[name](6, 2, relations=4, **options).eval()
    x = torch.randn(12, 6)
    out = model(x, graph)
    order = torch.randperm(graph.num_edges)
    torch.testing.assert_close(model(x, graph.select(order)), out)
    types = graph.edge_type.roll(3)
    other = graphs.TypedGraph(
        graph.edge_index, 12, 12, types, graph.relations,
        node_type=graph.node_type, node_types=graph.node_types,
    )  # fmt: skip
    assert not torch.allclose(model(x, other), out)
    with refused("graph", expected="types of edges", got="<edges", remedy="graphs.typed"):
        model(x, graphs.edges(graph.edge_index, 12))
    with refused("graph", expected="at most 4 relations", got="8 relations", remedy="relations="):
        model(x, graph.with_reverse())


@pytest.mark.parametrize("name", ["hgt", "typed_transformer"])
def test_node_types_in_any_order(name: str) -> None:
    graph, order = typed(), torch.randperm(12)
    shuffled = graphs.TypedGraph(
        order.argsort()[graph.edge_index], 12, 12, graph.edge_type, graph.relations,
        node_type=graph.node_type[order], node_types=graph.node_types,
    )  # fmt: skip
    model, x = models.MODELS[name](6, 2, relations=4, node_types=3), torch.randn(12, 6)
    torch.testing.assert_close(model(x[order], shuffled), model(x, graph)[order])


def test_grouped_matmul_has_second_derivatives() -> None:
    x = torch.randn(5, 2, 3, dtype=torch.double, requires_grad=True)
    weight = torch.randn(3, 2, 3, 4, dtype=torch.double, requires_grad=True)
    for rows, matrices in ((x, weight), (x[:, 0], weight[:, 0])):
        expected = [r.unsqueeze(-2) @ matrices[[0, 0, 2, 2, 2][i]] for i, r in enumerate(rows)]
        out = layers.grouped_matmul(rows, [2, 0, 3], matrices)
        torch.testing.assert_close(out, torch.stack(expected).squeeze(-2))
        checked = rows.detach().requires_grad_(), matrices.detach().requires_grad_()
        assert torch.autograd.gradgradcheck(
            lambda a, b: layers.grouped_matmul(a, [2, 0, 3], b), checked
        )


@pytest.mark.parametrize("name", ["hgt", "typed_transformer"])
def test_recorded_weights_are_of_nodes(name: str) -> None:
    graph, x = typed(), torch.randn(12, 6)
    model = models.MODELS[name](6, 2, relations=4, node_types=3, depth=1)
    with explain.record(model) as recorded:
        model(x, graph)
    (record,) = recorded
    assert set(zip(*record.edge_index.tolist(), strict=True)) == set(
        zip(*graph.edge_index.tolist(), strict=True)
    )


@pytest.mark.parametrize("name", ["rgcn", "hgt", "typed_transformer"])
def test_a_graph_may_have_fewer_relations_than_the_model(name: str) -> None:
    graph = graphs.typed({("a", "r", "a"): torch.tensor([[0, 1], [1, 2]])}, {"a": 3})
    model = models.MODELS[name](4, 2, relations=3).eval()
    more = {relation: torch.empty(2, 0, dtype=torch.long) for relation in [("a", "s", "a")]}
    padded = graphs.typed({("a", "r", "a"): graph.edge_index, **more}, {"a": 3})
    x = torch.randn(3, 4)
    torch.testing.assert_close(model(x, graph), model(x, padded))


def test_initial_matrices_do_not_depend_on_the_number_of_relations() -> None:
    """The largest of many uniform numbers is near the bound of Glorot and Bengio."""
    rgcn, hgt = models.rgcn(64, 64, relations=86), models.hgt(64, 4, width=64, relations=86)
    first = next(layer for layer in rgcn.modules() if isinstance(layer, RGCNLayer))
    assert first.weight.abs().max().item() == pytest.approx(
        (6 / sum(first.weight.shape[1:])) ** 0.5, 1e-2
    )
    layer = next(layer for layer in hgt.modules() if isinstance(layer, HGTLayer))
    width = layer.key_map.shape[-1]
    assert layer.key_map.abs().max().item() == pytest.approx((6 / (2 * width)) ** 0.5, 1e-2)


@pytest.mark.parametrize("name", ["rgcn", "hgt", "typed_transformer"])
def test_a_batch_needs_one_relation(name: str) -> None:
    model = getattr(models, name)(5, 3)
    x, graph = torch.randn(2, 12, 5), graphs.window(1)
    torch.testing.assert_close(model(x, graph)[1], model(x[1], graph))
    pairs = torch.randint(12, (2, 7))
    one_type = graphs.typed({("a", "to", "a"): pairs, ("a", "of", "a"): pairs}, {"a": 12})
    for graph in (one_type, typed()):
        sizes = {"relations": len(graph.relations), "node_types": len(graph.node_types)}
        if name == "rgcn":
            del sizes["node_types"]
        model = getattr(models, name)(5, 3, **sizes)
        with refused("x", expected="[N, F]", got="[2, 12, ", remedy="each element"):
            model(x, graph)


def test_edges_are_checked_without_numbers_of_nodes() -> None:
    with refused("edge_indices", expected="[2, E]", got="[3, 1]", remedy="sources in row 0"):
        graphs.typed({("a", "r", "a"): torch.zeros(3, 1, dtype=torch.long)})
