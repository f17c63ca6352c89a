"""The GCN with residual maps and norms against its formula."""

from __future__ import annotations

import pytest
import torch

from edgewise import models
from edgewise.models.gps import NormName
from edgewise.models.residual_gcn import ResidualGCNLayer
from tests.models.test_grand import a_graph


@pytest.mark.parametrize(("norm", "dim"), [("batch", 0), ("layer", 1)])
def test_by_its_formula(norm: NormName, dim: int) -> None:
    model = models.residual_gcn(5, 3, width=4, depth=2, norm=norm, dropout=0.0).double()
    x, graph = torch.randn(6, 5, dtype=torch.double), a_graph()
    matrix = graph.dense().double() + torch.eye(6, dtype=torch.double)
    scale = matrix.sum(1).rsqrt()
    matrix = scale[:, None] * matrix * scale
    *layers, last = model.layers
    h = x
    for layer in layers:
        assert isinstance(layer, ResidualGCNLayer)
        convolution, residual = layer.convolution, layer.residual
        h = (
            matrix @ h @ convolution.linear.weight.T
            + convolution.bias
            + h @ residual.weight.T
            + residual.bias
        )
        variance, mean = torch.var_mean(h, dim, correction=0, keepdim=True)
        h = ((h - mean) / (variance + 1e-5).sqrt()).relu()
    assert isinstance(last, torch.nn.Linear)
    expected = h @ last.weight.T + last.bias
    torch.testing.assert_close(model(x, graph), expected, rtol=0, atol=1e-12)
