"""``edgewise verify`` passes, names every peer, and fails where a layer is wrong."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch
from torch import Tensor, nn

from edgewise.app.cli import verify
from edgewise.graphs import Graph
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
    assert verify.verify(Namespace()) == 0
    shown = capsys.readouterr().out
    assert all(peer in shown for peer in PEERS)
    assert "FAILED" not in shown


def test_a_wrong_layer_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch_geometric")
    right = GCNLayer.forward
    monkeypatch.setattr(GCNLayer, "forward", lambda *args: right(*args) * (1 + 1e-4))
    assert verify.verify(Namespace()) == 1
    assert "FAILED" in capsys.readouterr().out


class OrderDependent(nn.Module):
    """Each node's neighbours through an LSTM, in the order in which their edges are listed."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(in_width, out_width, batch_first=True)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        neighbours = [x[graph.source[graph.target == node]] for node in range(len(x))]
        nothing = x.new_zeros(1, x.shape[1])
        last = [self.lstm(torch.cat([nothing, read])[None])[0][0, -1] for read in neighbours]
        return torch.stack(last)


def test_an_aggregator_that_depends_on_the_order_of_edges_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(verify.NODE_MODELS, "lstm", OrderDependent)
    found = {c.layer: c.run() <= c.limit for c in verify.checks() if "renumbered" in c.layer}
    assert [name for name, good in found.items() if not good] == ["lstm, renumbered"]


def test_limits_are_those_of_the_specification() -> None:
    limits = {check.dtype: check.limit for check in verify.checks() if "torch" in check.reference}
    assert limits == {torch.float32: 1e-5, torch.float64: 1e-12}
