"""The plain layer by hand, and how far k of them see."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.layers import GraphSequential, MessagePassing


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_equals_the_formula_node_by_node(reduce: str) -> None:
    torch.manual_seed(0)
    layer = MessagePassing(3, 4, reduce=reduce)
    graph = graphs.edges(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), 4)
    x = torch.randn(4, 3)
    out = layer(x, graph)
    for i in range(4):
        messages = [layer.message(x[j]) for j, k in graph.edge_index.T.tolist() if k == i]
        total = torch.zeros(4)
        if messages:
            stacked = torch.stack(messages)
            extremes = {"max": stacked.amax(0), "min": stacked.amin(0)}
            total = {"sum": stacked.sum(0), "mean": stacked.mean(0), **extremes}[reduce]
        torch.testing.assert_close(out[i], layer.own(x[i]) + total)


def test_k_layers_see_k_steps_and_no_further() -> None:
    torch.manual_seed(0)
    depth, chain = 3, graphs.tree([-1, 0, 1, 2, 3, 4], reads="parent")
    model = GraphSequential(*[MessagePassing(4, 4) for _ in range(depth)])
    x = torch.randn(6, 4, requires_grad=True)
    model(x, chain)[5].sum().backward()
    seen = x.grad.abs().sum(1) > 0
    assert seen.tolist() == [False, False, True, True, True, True]


def test_batches_share_the_graph() -> None:
    layer, x = MessagePassing(3, 4), torch.randn(2, 5, 3)
    both = layer(x, graphs.window(1))
    torch.testing.assert_close(both[1], layer(x[1], graphs.window(1)))
