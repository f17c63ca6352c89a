"""Attributions of models that are not runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from edgewise import explain, graphs, models
from edgewise._utils.errors import ArgumentError
from edgewise.layers import ClassificationHead, TextClassifier, Tokens


def test_an_output_of_a_graph_model_is_attributed_to_edges() -> None:
    model, x, graph = models.gat(4, 3).eval(), torch.randn(6, 4), graphs.window(1).bind(6)
    scores = explain.attributions(model, x, graph, target=(2, 1))
    assert scores.method == "removed"
    for pair, contribution in zip(scores.pairs.T, scores.edges, strict=True):
        remaining = ~torch.isin(graph.edge_index, pair).all(0) | (graph.source == graph.target)
        without = model(x, graphs.edges(graph.edge_index[:, remaining], 6))[2, 1]
        torch.testing.assert_close(contribution, (model(x, graph)[2, 1] - without).detach())


def test_a_model_of_pytorch_geometric_is_attributed_alike() -> None:
    pyg = pytest.importorskip("edgewise.interop.pyg")
    layer, x, graph = pyg.GATConv(4, 3), torch.randn(6, 4), graphs.window(1).bind(6)
    scores = explain.attributions(layer, x, graph.edge_index, target=(2, 1), method="left_out")
    assert scores.edges.nonzero()[:, 0].tolist() == [1, 2]  # 1-2 and 2-3


def test_the_largest_output_of_a_text_model_is_the_default() -> None:
    trunk = models.bert(20, width=16, depth=1, heads=2, ffn_dim=32)
    classifier = TextClassifier(trunk, ClassificationHead(16, 3)).eval()

    class OfIds(nn.Module):
        def forward(self, ids: torch.Tensor) -> Any:
            return (classifier(Tokens(ids)),)

    ids = torch.randint(20, (1, 5))
    scores = explain.attributions(OfIds(), ids, labels=list("abcde"), method="relevance")
    best = int(classifier(Tokens(ids)).argmax())
    expected = explain.attributions(OfIds(), ids, target=best, method="relevance")
    assert bool(scores.members.all())
    torch.testing.assert_close(scores.members, expected.members)


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"labels": ["a"]}, "labels"), ({"target": None}, "target"), ({"target": 1}, "target")],
)
def test_wrong_arguments_are_named(changes: dict[str, Any], name: str) -> None:
    model, x, graph = models.gcn(4, 3).eval(), torch.randn(6, 4), graphs.window(1)
    with pytest.raises(ArgumentError, match=f"`{name}`"):
        explain.attributions(model, x, graph, **{"target": (2, 1), **changes})
    with pytest.raises(ArgumentError, match="`inputs`"):
        explain.attributions(model, target=(2, 1))
