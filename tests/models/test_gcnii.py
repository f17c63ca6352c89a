"""GCNII against its formula and PyTorch Geometric."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise import graphs, models
from edgewise.layers import symmetric_weight
from edgewise.models.gcnii import GCNIILayer
from tests.models.test_grand import a_graph


def test_by_its_formula() -> None:
    model = models.gcnii(5, 3, width=4, depth=3, alpha=0.2, decay=0.7).double().eval()
    x, graph = torch.randn(6, 5, dtype=torch.double), a_graph()
    matrix = graph.dense().double() + torch.eye(6, dtype=torch.double)
    scale = matrix.sum(1).rsqrt()
    matrix = scale[:, None] * matrix * scale
    h = initial = (x @ model.first.weight.T + model.first.bias).relu()
    for number, layer in enumerate(model.layers, 1):
        beta = math.log(0.7 / number + 1)
        mapping = (1 - beta) * torch.eye(4, dtype=torch.double) + beta * layer.linear.weight.T
        h = ((0.8 * matrix @ h + 0.2 * initial) @ mapping).relu()
    expected = h @ model.last.weight.T + model.last.bias
    torch.testing.assert_close(model(x, graph), expected, rtol=0, atol=1e-12)


def test_a_layer_is_the_one_of_pyg() -> None:
    theirs = pytest.importorskip("torch_geometric.nn")
    conv = theirs.GCN2Conv(4, alpha=0.3, theta=0.5, layer=2).double()
    layer = GCNIILayer(4, 0.3, math.log(0.5 / 2 + 1)).double()
    layer.linear.weight.data = conv.weight1.data.T
    x, initial = torch.randn(2, 6, 4, dtype=torch.double)
    graph = a_graph()
    loops = graph.with_self_loops()
    out = layer(x, initial, loops, symmetric_weight(loops))
    expected = conv(x, initial, graph.edge_index)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


def test_deep_layers_keep_nodes_apart() -> None:
    """The initial residual: without it (α = 0), 64 layers make all features equal."""
    ring = graphs.window(1).bind(8) | graphs.edges(torch.tensor([[0, 7], [7, 0]]), 8)
    x = torch.randn(8, 5, dtype=torch.double)

    def spread(alpha: float) -> float:
        torch.manual_seed(0)
        model = models.gcnii(5, 3, width=16, alpha=alpha, decay=1e-9).double().eval()
        out = model(x, ring).detach()
        return float(out.std(0).mean() / out.abs().mean())

    assert spread(0.1) > 10 * spread(0.0)
