"""Dropout of sparse features is dropout of the dense ones."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from edgewise.layers import Dropout


def sparse(x: Tensor) -> Tensor:
    with warnings.catch_warnings():  # PyTorch says once a process that this layout is young
        warnings.simplefilter("ignore", UserWarning)
        return x.to_sparse_csr()


def test_drops_stored_numbers_at_the_rate_asked_for_and_scales_the_others() -> None:
    torch.manual_seed(0)
    x = torch.ones(200, 100) * (torch.rand(200, 100) < 0.3)
    out = Dropout(0.25)(sparse(x)).to_dense()
    assert ((out == 0) | ((out - x / 0.75).abs() < 1e-6)).all()
    kept = float((out != 0).sum() / (x != 0).sum())
    deviation = (0.25 * 0.75 / float((x != 0).sum())) ** 0.5
    assert abs(kept - 0.75) < 5 * deviation


def test_does_nothing_when_not_training() -> None:
    x = sparse(torch.eye(3))
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_dense_features_are_dropped_as_pytorch_does() -> None:
    x = torch.ones(8, 8)
    torch.manual_seed(3)
    ours = Dropout(0.5)(x)
    torch.manual_seed(3)
    assert torch.equal(ours, torch.nn.Dropout(0.5)(x))
