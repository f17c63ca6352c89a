"""PyG's explainers give the same masks for the drop-ins as for PyG's layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("torch_geometric")
from torch_geometric import nn as theirs
from torch_geometric.explain import AttentionExplainer, Explainer, GNNExplainer

import edgewise.interop.pyg as ours

LAYERS: dict[str, dict[str, Any]] = {
    "GATConv": {"heads": 2, "concat": False},
    "GATv2Conv": {"heads": 2, "concat": False},
    "TransformerConv": {"heads": 2, "concat": False},
    "GCNConv": {},
    "SAGEConv": {},
    "FiLMConv": {},
    "SuperGATConv": {"heads": 2, "concat": False},
}
X = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))
EDGES = torch.randint(8, (2, 24), generator=torch.Generator().manual_seed(1))


class Model(nn.Module):
    """Two layers of a library."""

    def __init__(self, library: Any, name: str) -> None:
        super().__init__()
        make = getattr(library, name)
        self.layers = nn.ModuleList(make(4, 4, **LAYERS[name]) for _ in range(2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x.tanh(), edge_index)
        return x


def pair(name: str) -> list[Model]:
    models = [Model(ours, name).eval(), Model(theirs, name).eval()]
    models[0].load_state_dict(models[1].state_dict())
    return models


def explained(model: Model, algorithm: Any, node_mask: str | None = None) -> Any:
    torch.manual_seed(0)
    explainer = Explainer(
        model,
        algorithm,
        explanation_type="model",
        node_mask_type=node_mask,
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "node",
            "return_type": "raw",
        },
    )
    return explainer(X, EDGES, index=3)


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", LAYERS)
def test_gnn_explainer_gives_the_same_masks(name: str) -> None:
    ours_, theirs_ = (explained(one, GNNExplainer(epochs=20), "attributes") for one in pair(name))
    assert theirs_.edge_mask.unique().numel() > 2
    torch.testing.assert_close(ours_.edge_mask, theirs_.edge_mask, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours_.node_mask, theirs_.node_mask, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv", "TransformerConv"])
def test_attention_explainer_gives_the_same_mask(name: str) -> None:
    ours_, theirs_ = (explained(one, AttentionExplainer()) for one in pair(name))
    torch.testing.assert_close(ours_.edge_mask, theirs_.edge_mask, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_uses_edgewise_again_after_an_explanation(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = pair(name)[0]
    before = model(X, EDGES)
    explained(model, GNNExplainer(epochs=2))

    def propagate(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(theirs.MessagePassing, "propagate", propagate)
    assert model(X, EDGES).equal(before)
    assert not any("propagate" in vars(layer) for layer in model.layers)
