"""The drop-ins compile, with edges that differ in number from call to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

pytest.importorskip("torch_geometric")

from edgewise.interop import pyg
from tests.contracts.test_compile import agrees

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "SAGEConv": lambda: pyg.SAGEConv(8, 8),
    "GINConv": lambda: pyg.GINConv(nn.Linear(8, 8)),
    "TransformerConv": lambda: pyg.TransformerConv(8, 4, heads=2),
    "GATConv": lambda: pyg.GATConv(8, 4, heads=2, add_self_loops=False),
    "GATv2Conv": lambda: pyg.GATv2Conv(8, 4, heads=2, add_self_loops=False),
    "GCNConv": lambda: pyg.GCNConv(8, 8, add_self_loops=False),
}
LOOPED: dict[str, Callable[[], nn.Module]] = {
    "GATConv": lambda: pyg.GATConv(8, 4, heads=2),
    "GCNConv": lambda: pyg.GCNConv(8, 8),
}


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def calls() -> list[tuple[torch.Tensor, ...]]:
    return [
        (torch.randn(20, 8, requires_grad=True), torch.randint(20, (2, count)))
        for count in (60, 45)
    ]


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_compiles_in_one_piece(name: str) -> None:
    agrees(LAYERS[name](), calls())


@pytest.mark.parametrize("name", LOOPED)
def test_a_layer_that_adds_loops_compiles(name: str) -> None:
    """In pieces: how many loops there are already depends on the edges."""
    agrees(LOOPED[name](), calls(), fullgraph=False)


def test_edge_features_compile() -> None:
    given = [(*call, torch.randn(call[1].shape[1], 2)) for call in calls()]
    agrees(pyg.GMMConv(8, 8, dim=2, kernel_size=3), given)
