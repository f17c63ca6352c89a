"""GRIT against its formula, with dense matrices of pairs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import encodings, graphs, models
from edgewise.encodings.members import member_sizes, pair_of_edge
from edgewise.models.grit import GRITLayer, signed_root
from tests.models.test_graph_transformers import EDGE, HEADS, SIZES, WIDTH, packed


def dense_layer(layer: GRITLayer, x: Tensor, e: Tensor, degree: Tensor) -> tuple[Tensor, Tensor]:
    """A layer on one graph: x ``[n, width]`` and e ``[n, n, width]``, entry by entry."""
    n, attention = len(x), layer.attention
    q, k, v = attention.nodes(x).view(n, 3, WIDTH).unbind(1)
    w, b = attention.pairs(e).view(n, n, 2, WIDTH).unbind(2)
    product = (q[:, None] + k[None]) * w
    root = product.clamp(min=0).sqrt() - (-product).clamp(min=0).sqrt()
    states = (root + b).clamp(min=0)
    heads = states.view(n, n, HEADS, -1)
    scores = torch.einsum("ijhd,hd->ijh", heads, attention.score).clamp(-5, 5)
    weights = scores.softmax(1)
    values = v.view(1, n, HEADS, -1) + torch.einsum("ijhd,hod->ijho", heads, attention.pair_value)
    out = torch.einsum("ijh,ijhd->ihd", weights, values).flatten(1)
    out = layer.degree[0] * out + layer.degree[1] * out * (1 + degree).log()[:, None]
    x = layer.node_norm(x + layer.node_output(out))
    x = layer.network.norm(x + layer.network.sublayer(x))
    if layer.pair_norm is not None:
        e = layer.pair_norm(e + layer.pair_output(states))
    return x, e


@pytest.mark.parametrize("with_edges", [True, False])
def test_by_its_formula(with_edges: bool) -> None:
    torch.manual_seed(0)
    width = EDGE if with_edges else 0
    model = models.grit(WIDTH, 2, edge_width=width, steps=4, width=WIDTH, depth=3, heads=HEADS)
    model = model.double().eval()
    model.head = nn.Identity()  # A ReLU could hide differences.
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    x, graph, edge_attr = packed(3)
    expected, first = [], 0
    for n in SIZES:
        inside = (graph.target >= first) & (graph.target < first + n)
        matrix = graph.dense()[first : first + n, first : first + n].double()
        step = matrix / matrix.sum(1, keepdim=True).clamp(min=1)
        walks = torch.stack([torch.linalg.matrix_power(step, t) for t in range(4)], -1)
        h = model.embed(x[first : first + n]) + model.walk(walks.diagonal().T)
        e = model.relative_walk(walks)
        if with_edges:
            source, target = graph.edge_index[:, inside] - first
            e = e.index_put((target, source), model.embed_edges(edge_attr[inside]), accumulate=True)
        for layer in model.layers:
            h, e = dense_layer(layer, h, e, matrix.sum(1))
        expected.append(h.sum(0))
        first += n
    given = {"edge_attr": edge_attr} if with_edges else {}
    out = model(x, graph, batch=SIZES, **given)
    # Probabilities are rounded to float32.
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-6, atol=1e-5)


def test_the_signed_root_has_a_gradient_everywhere() -> None:
    x = torch.tensor([-4.0, 0.0, 9.0], requires_grad=True)
    out = signed_root(x)
    out.sum().backward()
    assert out.tolist() == [-2, 0, 3]
    torch.testing.assert_close(x.grad, torch.tensor([0.25, 0.0, 1 / 6]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_signed_root_has_a_gradient_in_half_precision(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1e-9, 1e-4, -4.0], dtype=dtype, requires_grad=True)
    out = signed_root(x)
    out.sum().backward()
    assert out.dtype == dtype
    assert out.tolist()[0] == x.grad.tolist()[0] == 0  # 1e-9 is also 0 in float16.
    assert x.grad.isfinite().all()
    expected = torch.tensor([50.0, 0.25], dtype=dtype)
    torch.testing.assert_close(x.grad[2:], expected, rtol=0.01, atol=0)


def test_pairs_of_edges() -> None:
    _, graph, _ = packed()
    pairs = graphs.batch(graphs.complete(), member_sizes(graph))
    assert torch.equal(pairs.edge_index[:, pair_of_edge(graph)], graph.edge_index)


def test_walks_of_pairs_end_where_those_of_nodes_do() -> None:
    _, graph, _ = packed()
    pairs = graphs.batch(graphs.complete(), member_sizes(graph))
    code = encodings.relative_random_walk_probabilities(graph, 6)
    loops = pairs.source == pairs.target
    back = encodings.random_walk_probabilities(graph, 5)
    torch.testing.assert_close(code[loops][:, 1:], back)
    begun = code.new_zeros(graph.num_targets, 6).index_add(0, pairs.target, code)
    has_edges = graph.in_degree() > 0
    torch.testing.assert_close(begun[has_edges], torch.ones_like(begun[has_edges]))
