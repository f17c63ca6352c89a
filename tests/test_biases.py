"""Edge terms that look themselves up are the tensors that they stand for."""

from __future__ import annotations

import torch

from edgewise import Projected, TableBias


def test_table() -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    bias = TableBias(torch.tensor([2, 0, 2, 1]), table)
    assert bias.expand().tolist() == [[5, 6], [1, 2], [5, 6], [3, 4]]
    assert bias.edges(slice(1, 3)).expand().equal(bias.expand()[1:3])
    assert bias.edges(slice(2, 2)).expand().shape == (0, 2)
    assert TableBias(torch.tensor([2, 0], dtype=torch.int32), table).expand().shape == (2, 2)
    assert TableBias(torch.empty(0, dtype=torch.long), table[:0]).expand().shape == (0, 2)


def test_projection() -> None:
    features, weight = torch.randn(5, 3), torch.randn(2, 4, 3)
    vectors = Projected(features, weight)
    for e in range(5):
        for h in range(2):
            torch.testing.assert_close(vectors.expand()[e, h], weight[h] @ features[e])
    assert vectors.edges(slice(1, 4)).expand().equal(vectors.expand()[1:4])
    assert vectors.edges(slice(3, 3)).expand().shape == (0, 2, 4)
