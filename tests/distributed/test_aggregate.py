"""Sums over one graph on several processes, and the graph networks that consist of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import edgewise as ew
from edgewise import distributed, models
from tests.distributed.cases import random_edges, sizes_of
from tests.distributed.processes import Processes
from tests.errors import refused


def sums(reduce: Any) -> float:
    """Largest difference of output and gradients from those of one process."""
    torch.manual_seed(0)
    graph = random_edges(20, 20, 70)
    x = torch.randn(20, 4, 3, dtype=torch.double, requires_grad=True)
    weight = torch.rand(70, 4, dtype=torch.double, requires_grad=True)
    cotangent = torch.randn(20, 4, 3, dtype=torch.double)
    expected = ew.aggregate(x, graph, weight=weight, reduce=reduce)
    gradients = torch.autograd.grad(expected, [x, weight], cotangent)

    nodes = sizes_of(20, dist.get_world_size(), dist.get_rank())
    divided = distributed.partition(graph, nodes.stop - nodes.start)
    local, mine = x.detach()[nodes].requires_grad_(), weight.detach().requires_grad_()
    out = ew.aggregate(local, divided, weight=mine, reduce=reduce)
    out.backward(cotangent[nodes])
    dist.all_reduce(mine.grad)
    errors = out - expected[nodes], local.grad - gradients[0][nodes], mine.grad - gradients[1]
    return max(float(error.detach().abs().max()) for error in errors if error.numel())


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_aggregate(two: Processes, reduce: str) -> None:
    assert max(two.results(sums, reduce)) < 1e-13


def network(name: str, dtype: torch.dtype) -> float:
    """Largest difference of output and gradients of the weights from those of one process."""
    torch.manual_seed(0)
    graph = random_edges(20, 20, 70)  # with self-loops and duplicates
    x = torch.randn(20, 5, dtype=dtype)
    make = models.MODELS[name]
    model = make(5, 3).to(dtype).eval()
    expected = model(x, graph)
    expected.square().sum().backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()

    nodes = sizes_of(20, dist.get_world_size(), dist.get_rank())
    out = model(x[nodes], distributed.partition(graph, nodes.stop - nodes.start))
    out.square().sum().backward()
    errors = [(out - expected[nodes]).detach()]
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        dist.all_reduce(parameter.grad)
        errors.append((parameter.grad - gradient) / gradient.abs().max())
    return max(float(error.abs().max()) for error in errors if error.numel())


@pytest.mark.parametrize("name", ["gcn", "gat", "gatv2", "graphsage", "gin", "gnn"])
def test_graph_networks(two: Processes, name: str) -> None:
    assert max(two.results(network, name, torch.double)) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gcn", "gat", "graphsage"])
def test_graph_networks_on_four(four: Processes, name: str) -> None:
    assert max(four.results(network, name, torch.double)) < 1e-12
    assert max(four.results(network, name, torch.float)) < 1e-5


def of_another_size() -> None:
    torch.manual_seed(0)
    rank = dist.get_rank()
    divided = distributed.partition(random_edges(20, 20, 70), 10)
    with refused("value", expected="10 nodes", got="9, on process 1", remedy="nodes 10 to 19"):
        ew.aggregate(torch.randn(10 - rank, 4), divided)
    with refused("reduce", expected="the same", got="sum on process 0 and mean", remedy="call"):
        ew.aggregate(torch.randn(10, 4), divided, reduce="mean" if rank else "sum")
    torch.manual_seed(1)
    bipartite = distributed.partition(random_edges(10, 20, 30), 5, 10)
    with refused("graph", expected="its targets", got="10 targets and 20", remedy="self-loops"):
        bipartite.with_self_loops()


def test_all_processes_raise_the_same_error(two: Processes) -> None:
    two.results(of_another_size)
