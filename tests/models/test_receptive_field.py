"""With k layers a node sees k steps far: a gradient from there, exactly none from beyond."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.models import NODE_MODELS

REACH = {
    **{name: {"depth": 3} for name in ("gnn", "gcn", "gcnii", "residual_gcn", "graphsage", "gin")},
    **{name: {"depth": 3} for name in ("graph_transformer", "rgcn", "hgt", "typed_transformer")},
    "gat": {},
    "gatv2": {},
    "monet": {},
    "magna": {"depth": 2, "hops": 2},
    "grand": {"hops": 3},
    "graph_bert": {"num_neighbours": 3},  # not by its layers, but by how many nodes its lists have
    "edge_transformer": {"depth": 2},
}
STEPS = {"gat": 2, "gatv2": 2, "monet": 2, "magna": 4, "edge_transformer": 2}


@pytest.mark.parametrize("name", NODE_MODELS)
def test_a_node_sees_as_far_as_its_layers_reach(name: str) -> None:
    nodes, reach = 7, STEPS.get(name, 3)
    line = torch.stack([torch.arange(1, nodes), torch.arange(nodes - 1)])  # i reads i + 1
    graph = graphs.edges(line, nodes)
    torch.manual_seed(0)
    x = torch.randn(nodes, 3, requires_grad=True)
    model = NODE_MODELS[name](3, 4, **REACH[name]).eval()
    out = model(x, graph)
    (out[0] * torch.randn_like(out[0])).sum().backward()
    seen = (x.grad != 0).any(-1)
    assert seen.tolist() == [True] * (reach + 1) + [False] * (nodes - reach - 1)
