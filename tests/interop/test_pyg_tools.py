"""The drop-ins in ``HeteroConv``, ``to_hetero`` and ``summary``, each against PyG's layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")
from torch_geometric import nn as theirs

import edgewise.interop.pyg as ours
from tests.interop.parity import CASES, EDGE, IN, NEWER, Case, inputs, twins

EDGES = {
    ("a", "to", "b"): torch.tensor([[0, 1, 2, 2, 4], [0, 0, 1, 3, 5]]),
    ("b", "back", "a"): torch.tensor([[0, 1, 3], [2, 2, 0]]),
    ("a", "self", "a"): torch.tensor([[0, 1], [1, 1]]),
}
# PyG refuses layers that add self-loops in a graph with several types.
LAYERS = {
    case.layer: case
    for case in reversed(
        [
            *(case for case in CASES if case.layer in ("SAGEConv", "GINConv", "GMMConv")),
            *(
                Case(name, {"heads": 2} | loops)
                for name, loops in [
                    ("GATConv", {"add_self_loops": False}),
                    ("GATv2Conv", {"add_self_loops": False}),
                    ("TransformerConv", {}),
                ]
            ),
            *(case for case in NEWER if case.layer in ("GINEConv", "RGCNConv", "FiLMConv")),
        ]
    )
}
# One layer of each kind with linear maps, with edge features where it takes them.
CHANGED = {
    case.layer: case
    for case in sorted(CASES, key=lambda case: case.edges or 0)
    if case.layer not in ("RGCNConv", "RGATConv", "GPSConv")
}.values()
EACH = list({case.layer: case for case in reversed(NEWER)}.values())


class Model(nn.Module):
    """A layer of a library on source and target nodes."""

    def __init__(self, library: Any, case: Case) -> None:
        super().__init__()
        self.layer = case.build(library, (IN, IN))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x, edge_index).relu()


class EdgeModel(Model):
    """The same with edge features or types."""

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        return self.layer(x, edge_index, edge_attr).relu()


def features() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {"a": torch.randn(5, IN), "b": torch.randn(6, IN)}


def edge_values(case: Case) -> dict[tuple[str, str, str], Tensor] | None:
    if case.types:
        return {t: torch.randint(case.types, index.shape[1:]) for t, index in EDGES.items()}
    if case.edges:
        return {t: torch.rand(index.shape[1], case.edges) for t, index in EDGES.items()}
    return None


def assert_alike(models: list[nn.Module], *call: Any, **more: Any) -> None:
    models[0].load_state_dict(models[1].state_dict())
    outs = [model.eval()(*call, **more) for model in models]
    assert outs[0].keys() == outs[1].keys()
    for name, out in outs[1].items():
        torch.testing.assert_close(outs[0][name], out)


@pytest.mark.slow(every=2)
@pytest.mark.parametrize("case", LAYERS.values(), ids=str)
def test_hetero_conv(case: Case) -> None:
    models = [
        theirs.HeteroConv({t: case.build(library, IN) for t in EDGES}, aggr="sum")
        for library in (ours, theirs)
    ]
    values = edge_values(case)
    name = "edge_type_dict" if case.types else "edge_attr_dict"
    assert_alike(models, features(), EDGES, **({} if values is None else {name: values}))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("case", LAYERS.values(), ids=str)
def test_to_hetero(case: Case) -> None:
    values = edge_values(case)
    kind = Model if values is None else EdgeModel
    x = features()
    models = [
        theirs.to_hetero(kind(library, case), (list(x), list(EDGES))) for library in (ours, theirs)
    ]
    assert_alike(models, x, EDGES, *([] if values is None else [values]))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("case", EACH, ids=str)
def test_summary_is_pygs(case: Case) -> None:
    x, index, edge = inputs(case, "random", torch.float32)
    tables = [
        theirs.summary(layer.eval(), x, index, *([] if edge is None else [edge]))
        for layer in twins(case, "random", torch.float32)
    ]
    assert tables[0] == tables[1]


class Doubled(nn.Module):
    """Twice the output of a linear map, without its weight as an attribute, as LoRA may do."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, *inputs: Any) -> Any:
        return 2 * self.linear(*inputs)


def wrap(layer: nn.Module, name: str) -> None:
    parent, _, attribute = name.rpartition(".")
    setattr(layer.get_submodule(parent), attribute, Doubled(layer.get_submodule(name)))


def hook(layer: nn.Module, name: str) -> None:
    layer.get_submodule(name).register_forward_hook(lambda _module, _inputs, out: 2 * out)


@pytest.mark.parametrize("change", [wrap, hook])
@pytest.mark.parametrize("case", CHANGED, ids=str)
def test_changed_linear_maps(case: Case, change: Callable[[nn.Module, str], None]) -> None:
    x, index, edge = inputs(case, "random", torch.float64)
    outs = []
    for layer in twins(case, "random", torch.float64):
        names = [n for n, m in layer.named_modules() if isinstance(m, (nn.Linear, theirs.Linear))]
        assert names
        for name in names:
            change(layer.eval(), name)
        outs.append(layer(x, index, *([] if edge is None else [edge])))
    torch.testing.assert_close(*outs)


@pytest.mark.parametrize("name", ["k_rel", "v_rel"])
def test_changed_maps_of_edge_types(name: str) -> None:
    types = list(EDGES)
    layers = [library.HGTConv(IN, 4, (["a", "b"], types), heads=2) for library in (ours, theirs)]
    layers[0].load_state_dict(layers[1].state_dict())
    for layer in layers:
        hook(layer, name)
    outs = [layer(features(), EDGES) for layer in layers]
    torch.testing.assert_close(*outs)


def test_a_changed_map_of_edge_features_with_edge_types() -> None:
    case = Case("RGATConv", {"heads": 2, "edge_dim": EDGE}, types=3)
    x, index, edge_type = inputs(case, "random", torch.float64)
    edge_attr = torch.randn(index.shape[1], EDGE, dtype=torch.float64)
    outs = []
    for layer in twins(case, "random", torch.float64):
        wrap(layer, "lin_edge")
        outs.append(layer(x, index, edge_type, edge_attr))
    torch.testing.assert_close(*outs)
