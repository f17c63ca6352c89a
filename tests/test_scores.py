"""Score functions against their formulas."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from edgewise import Additive, Dot

QUERY, KEY = torch.tensor([[1.0, -2.0, 0.5]]), torch.tensor([[0.5, 1.0, -3.0]])
SUM = torch.tensor([1.5, -1.0, -2.5])
WEIGHT = torch.tensor([[2.0, -1.0, 0.5]])


def test_dot() -> None:
    product = 0.5 - 2.0 - 1.5
    assert Dot(1.0)(QUERY, KEY).item() == product
    assert Dot()(QUERY, KEY).item() == pytest.approx(product / math.sqrt(3))
    assert Dot().scale_for(64) == 0.125
    assert Dot(0.0).scale_for(64) == 0.0
    assert Dot().scale_for(0) == 1.0


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("identity", SUM),
        ("relu", torch.tensor([1.5, 0.0, 0.0])),
        ("leaky_relu", torch.tensor([1.5, -0.2, -0.5])),
        ("tanh", torch.tensor([math.tanh(x) for x in SUM.tolist()])),
        ("gelu", F.gelu(SUM)),
        ("silu", SUM * SUM.sigmoid()),
    ],
)
def test_additive(activation: str, expected: torch.Tensor) -> None:
    torch.testing.assert_close(Additive(activation)(QUERY, KEY), expected.sum()[None])
    weighted = (expected * WEIGHT).sum(-1)
    torch.testing.assert_close(Additive(activation, WEIGHT)(QUERY, KEY), weighted)


def test_the_slope_of_the_leaky_relu() -> None:
    score = Additive(negative_slope=0.5)(QUERY, KEY)
    assert score.item() == 1.5 - 0.5 - 1.25
