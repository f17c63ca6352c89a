"""Layers and models compute over a partition what they compute over the graph on one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import edgewise as ew
from edgewise import distributed, graphs, layers, models
from tests.distributed.cases import random_edges, sizes_of
from tests.distributed.processes import Processes
from tests.errors import refused


def train(way: Any) -> float:
    """Largest difference of the parameters after two steps from those of one process."""
    rank, count = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    graph = random_edges(24, 24, 90)
    x, target, weight = torch.randn(24, 5), torch.randn(24, 3), torch.rand(90)
    nodes = sizes_of(24, count, rank)
    divided = distributed.partition(graph, nodes.stop - nodes.start, by=way)
    edges = getattr(divided, "edge_ids", slice(None))

    weights = []
    for is_divided in (False, True):
        torch.manual_seed(1)
        model = models.graph_transformer(5, 3, width=8, heads=4, depth=2, norm="layer").double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            if is_divided:
                out = model(x[nodes].double(), divided, edge_attr=weight[edges].double())
                ((out - target[nodes]).square().sum() / 24).backward()
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
            else:
                out = model(x.double(), graph, edge_attr=weight.double())
                ((out - target).square().sum() / 24).backward()
            optimizer.step()
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    return float((weights[0] - weights[1]).abs().max())


@pytest.mark.parametrize("way", ["halo", "heads", "ring"])
def test_a_graph_transformer_is_trained_as_on_one_process(two: Processes, way: str) -> None:
    assert max(two.results(train, way)) < 1e-13


def sequence() -> float:
    torch.manual_seed(0)
    x, nodes = torch.randn(2, 16, 8), sizes_of(16, 2, dist.get_rank())
    blocks = [layers.TransformerLayer(8, 4, 16, order="pre") for _ in range(2)]
    stack = layers.TransformerStack(blocks, torch.nn.LayerNorm(8), graphs.causal())
    divided = distributed.partition(graphs.causal(), nodes.stop - nodes.start, by="ring")
    return float((stack(x[:, nodes], divided) - stack(x)[:, nodes]).detach().abs().max())


def test_a_causal_stack_runs_on_slices_of_a_sequence(two: Processes) -> None:
    assert max(two.results(sequence)) < 1e-5


def heads_first() -> float:
    torch.manual_seed(0)
    x, nodes = torch.randn(4, 16, 8), sizes_of(16, 2, dist.get_rank())
    local, options = x[:, nodes], {"layout": "HND"}
    out = distributed.attend(local, local, local, graphs.window(2), layout="HND")
    return float((out - ew.attend(x, x, x, graphs.window(2), **options)[:, nodes]).abs().max())


def test_heads_before_nodes(two: Processes) -> None:
    assert max(two.results(heads_first)) < 1e-6


def other_operations() -> None:
    x = torch.randn(5, 8)
    divided = distributed.partition(graphs.window(1), 5)
    with refused("graph", expected="5 targets and 5 sources", got="4 targets", remedy="number"):
        models.graph_transformer(8, 3)(x[:4], divided)
    with refused("graph", expected="on one process", got="process", remedy="sums and attention"):
        ew.attend_with_lse(*[x.view(5, 2, 4)] * 3, divided)
    divided = distributed.partition(graphs.window(1), 5, by="ring")
    with refused("graph", expected="on one process", got="process", remedy="halo"):
        ew.aggregate(x, divided)
    with refused("graph", expected="on one process", got="process", remedy="halo"):
        models.gat(8, 3)(x, divided)


def test_operations_that_are_not_divided_say_so(two: Processes) -> None:
    two.results(other_operations)
