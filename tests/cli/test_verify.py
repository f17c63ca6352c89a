"""``edgewise verify`` passes, names every peer, and fails where a layer is wrong."""

from __future__ import annotations

import pytest
import torch

from edgewise.cli import verify
from edgewise.models.gcn import GCNLayer

PEERS = (
    "torch.nn.MultiheadAttention",
    "torch.nn.TransformerEncoderLayer",
    "norm_first=True",
    "torch.nn.Transformer whole",
    "TransformerConv",
    "GATConv",
    "GCNConv",
    "the lectures' worked example",
    "renumbered",
    "gradient from the future",
)


def test_every_difference_is_within_its_limit(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch_geometric")
    assert verify.run() == 0
    shown = capsys.readouterr().out
    assert all(peer in shown for peer in PEERS)
    assert "FAILED" not in shown


def test_a_wrong_layer_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch_geometric")
    right = GCNLayer.forward
    monkeypatch.setattr(GCNLayer, "forward", lambda *args: right(*args) * (1 + 1e-4))
    assert verify.run() == 1
    assert "FAILED" in capsys.readouterr().out


def test_limits_are_those_of_the_specification() -> None:
    limits = {check.dtype: check.limit for check in verify.checks() if "torch" in check.theirs}
    assert limits == {torch.float32: 1e-5, torch.float64: 1e-12}
