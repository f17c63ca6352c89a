"""GatedGCN against its formula and PyTorch Geometric."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.models.gated_gcn import EPSILON, GatedConvolution
from tests.models.test_graph_transformers import EDGE, SIZES, WIDTH, packed


def dense_convolution(layer: GatedConvolution, x: Tensor, graph: graphs.Graph, e: Tensor) -> Tensor:
    """The convolution as a sum over all pairs of nodes, edge by edge."""
    a, b, d, f = layer.nodes.weight.view(4, WIDTH, WIDTH)
    biases = layer.nodes.bias.view(4, WIDTH)
    n = len(x)
    gates = torch.zeros(n, n, WIDTH, dtype=torch.double)
    for edge, (j, i) in enumerate(graph.edge_index.T.tolist()):
        gates[i, j] = (d @ x[i] + biases[2] + f @ x[j] + biases[3] + layer.edges(e[edge])).sigmoid()
    messages = (gates * (x @ b.T + biases[1])).sum(1)
    return x @ a.T + biases[0] + messages / (gates.sum(1) + EPSILON)


def test_the_convolution_by_its_formula() -> None:
    torch.manual_seed(0)
    x, graph, _ = packed()
    layer = GatedConvolution(WIDTH).double()
    edges = torch.randn(graph.num_edges, WIDTH, dtype=torch.double)
    out, gates = layer(x, graph, edges)
    torch.testing.assert_close(out, dense_convolution(layer, x, graph, edges), rtol=0, atol=1e-12)
    assert gates.shape == edges.shape


def test_gradients_of_closed_gates_are_finite_in_float16() -> None:
    """The quotient of two sums of about 1e-6, by which 1 is divided twice."""
    torch.manual_seed(0)
    layer, graph = GatedConvolution(WIDTH).half(), graphs.edges(torch.tensor([[0], [1]]), 2)
    with torch.no_grad():
        layer.edges.bias.fill_(-16.0)
    x = torch.randn(2, WIDTH, dtype=torch.half, requires_grad=True)
    layer(x, graph, torch.zeros(1, WIDTH, dtype=torch.half))[0].sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_the_convolution_is_a_quotient_of_two_of_pyg() -> None:
    """PyG's sums are not divided: one with the values is divided by one with values of 1."""
    theirs = pytest.importorskip("torch_geometric.nn")
    torch.manual_seed(0)
    x, graph, edge_attr = packed()
    layer = GatedConvolution(WIDTH).double()
    features = torch.cat([edge_attr, torch.zeros(len(edge_attr), WIDTH - EDGE)], 1)
    sums = []
    for value in ("map", "one"):
        conv = theirs.ResGatedGraphConv(WIDTH, WIDTH, edge_dim=WIDTH, root_weight=False, bias=False)
        conv = conv.double()
        _, b, d, f = layer.nodes.weight.view(4, WIDTH, WIDTH)
        biases = layer.nodes.bias.view(4, WIDTH)
        half = layer.edges.weight, layer.edges.bias
        with torch.no_grad():  # PyG adds the features of the edge to both of its ends.
            conv.lin_key.weight.copy_(torch.cat([d, half[0]], 1))
            conv.lin_key.bias.copy_(biases[2] + half[1])
            conv.lin_query.weight.copy_(torch.cat([f, torch.zeros_like(half[0])], 1))
            conv.lin_query.bias.copy_(biases[3])
            conv.lin_value.weight.zero_()
            conv.lin_value.bias.fill_(1)
            if value == "map":
                conv.lin_value.weight[:, :WIDTH] = b
                conv.lin_value.bias.copy_(biases[1])
        sums.append(conv(x, graph.edge_index, features))
    own = x @ layer.nodes.weight[:WIDTH].T + layer.nodes.bias[:WIDTH]
    expected = own + sums[0] / (sums[1] + EPSILON)
    torch.testing.assert_close(layer(x, graph, features)[0], expected, rtol=0, atol=1e-12)


def test_the_model_by_its_formula() -> None:
    torch.manual_seed(0)
    model = models.gated_gcn(WIDTH, 2, edge_width=EDGE, width=WIDTH, depth=2, position_size=3)
    model = model.double().eval()
    model.head = nn.Identity()  # A ReLU could hide differences.
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    x, graph, edge_attr = packed(1)
    h = model.embed_with_positions(x, graph, None)
    e = model.embed_edges(edge_attr)
    for layer in model.layers:
        convolved = dense_convolution(layer.convolution, h, graph, e)
        gates = layer.convolution(h, graph, e)[1]
        h = h + layer.node_norm(convolved).relu()
        if layer is model.layers[0]:
            e = e + layer.edge_norm(gates).relu()
        h = layer.network.norm(h + layer.network.sublayer(h))
    expected = torch.stack([states.mean(0) for states in h.split(SIZES)])
    out = model(x, graph, edge_attr=edge_attr, batch=SIZES)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-11)


def test_outputs_of_nodes() -> None:
    x, graph, _ = packed()
    model = models.gated_gcn(WIDTH, 2, width=WIDTH, depth=1, position="none", pool="none").double()
    assert model(x, graph).shape == (len(x), 2)
