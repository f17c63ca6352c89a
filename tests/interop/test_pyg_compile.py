"""The drop-ins compile, are traced and exported, also for another number of edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")

from edgewise.interop import pyg
from tests.contracts.test_compile import agrees
from tests.interop.parity import IN, NEWER, Case, twins
from tests.interop.pyg_inputs import CONFIGURATIONS, EACH_LAYER, NODES, edge_list

NEWEST = list({case.layer: case for case in reversed(NEWER)}.values())
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


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_compiles_in_one_piece(name: str) -> None:
    agrees(LAYERS[name](), calls())


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPED)
def test_a_layer_that_adds_loops_compiles(name: str) -> None:
    """In pieces: how many loops there are already depends on the edges."""
    agrees(LOOPED[name](), calls(), fullgraph=False)


@pytest.mark.slow
def test_edge_features_compile() -> None:
    given = [(*call, torch.randn(call[1].shape[1], 2)) for call in calls()]
    agrees(pyg.GMMConv(8, 8, dim=2, kernel_size=3), given)


def recorded_calls(case: Case) -> list[tuple[Tensor, ...]]:
    """A call, and one with other features and fewer edges."""
    return [
        (
            torch.randn(NODES, IN),
            edge_list(num_edges).flip(1),
            *([] if case.edges is None else [torch.rand(num_edges, case.edges)]),
            *([] if case.types is None else [torch.randint(case.types, (num_edges,))]),
        )
        for num_edges in (9, 7)
    ]


@pytest.mark.slow(every=8)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # of PyTorch Geometric's layers
@pytest.mark.parametrize("case", [*CONFIGURATIONS, *NEWEST], ids=str)
def test_a_traced_layer_computes_other_graphs(case: Case) -> None:
    layer, pyg_layer = (twin.eval() for twin in twins(case, "random", torch.float32))
    calls = recorded_calls(case)
    traced = torch.jit.trace(layer, calls[0])
    for call in calls:
        torch.testing.assert_close(traced(*call), pyg_layer(*call))


@pytest.mark.slow(after=1)
@pytest.mark.parametrize(
    # PyG's RGCNConv, which computes the call, reads the number of edges of a type.
    "case",
    [*EACH_LAYER, *(case for case in NEWEST if case.layer != "RGCNConv")],
    ids=str,
)
def test_an_exported_layer_computes_other_graphs(case: Case) -> None:
    layer, pyg_layer = (twin.eval() for twin in twins(case, "random", torch.float32))
    calls = recorded_calls(case)
    shapes = (None, {1: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO})[: len(calls[0])]
    exported = torch.export.export(layer, calls[0], dynamic_shapes=shapes).module()
    for call in calls:
        torch.testing.assert_close(exported(*call), pyg_layer(*call))
