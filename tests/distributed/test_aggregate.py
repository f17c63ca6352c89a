"""Sums over one graph on several processes, and the graph networks that consist of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import edgewise as ew
from edgewise import distributed, graphs, models
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


NETWORKS = ["gcn", "gcnii", "grand", "gat", "gatv2", "graphsage", "gin", "gnn"]


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


@pytest.mark.parametrize("name", NETWORKS)
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


def not_tensors_on_the_second() -> None:
    divided, second = distributed.partition(graphs.window(1), 3), dist.get_rank() == 1
    x, per_head = torch.randn(3, 4), torch.randn(3, 1, 4)
    floats = "floats"
    with refused("value", expected=floats, got="list, on process 1", remedy="unflatten"):
        ew.aggregate([1, 2] if second else x[:, None], divided)  # type: ignore[arg-type]
    with refused("weight", expected="a tensor of floats", got="list, on process 1", remedy="as_te"):
        weight: Any = [1.0] if second else torch.ones(divided.num_edges)
        ew.aggregate(x, divided, weight=weight)
    with refused("query", expected=floats, got="list, on process 1", remedy="unflatten"):
        ew.attend([1] if second else per_head, per_head, per_head, divided)  # type: ignore[arg-type]
    for gather in (divided.gather_source, divided.gather_target):
        with refused("x", expected="3 nodes", got="2, on process 1", remedy="nodes"):
            gather(x[:2] if second else x)
        with refused("x", expected="features of nodes", got="on process 1", remedy="x[:, None]"):
            gather(x[:, 0] if second else x)
        with refused("dtype", expected="the same", got="torch.float64 on process 1", remedy="call"):
            gather(x.double() if second else x)


def test_arguments_are_checked_before_processes_wait(two: Processes) -> None:
    two.results(not_tensors_on_the_second)


def remedies() -> None:
    halo = distributed.partition(graphs.window(1), 3)
    for name in ("gps", "gated_gcn", "magna"):
        model = models.MODELS[name](4, 2).eval()
        with refused("graph", expected="a graph", got="process", remedy="such as gcn, gat, gcnii"):
            model(torch.randn(3, 4), halo)
    ring = distributed.partition(graphs.window(1), 3, by="ring")
    with refused("graph", expected="a graph", got="process", remedy='use by="halo"'):
        models.gcn(4, 2)(torch.randn(3, 4), ring)


def test_a_model_that_is_not_divided_has_a_remedy_that_helps(two: Processes) -> None:
    two.results(remedies)
