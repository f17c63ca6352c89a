"""Attention over one graph on several processes equals attention on one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import edgewise as ew
from edgewise import distributed, graphs
from tests.distributed.cases import BALANCED, CASES, compare, random_edges, sizes_of
from tests.distributed.processes import Processes

WAYS = ["halo", "heads", "ring"]
PAIRS = [(name, way) for name in CASES for way in WAYS if (name, way) != ("entmax", "ring")]


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_two_processes_equal_one(two: Processes, name: str, way: str) -> None:
    for errors in two.results(compare, name, way):
        assert max(errors.values(), default=0.0) < 1e-13, errors


@pytest.mark.slow
@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_four_processes_equal_one(four: Processes, name: str, way: str) -> None:
    for errors in four.results(compare, name, way):
        assert max(errors.values(), default=0.0) < 1e-13, errors


@pytest.mark.parametrize("name", BALANCED)
def test_zigzag_on_two_processes(two: Processes, name: str) -> None:
    for errors in two.results(compare, name, "zigzag"):
        assert max(errors.values()) < 1e-13, errors


@pytest.mark.slow
@pytest.mark.parametrize("name", BALANCED)
def test_zigzag_on_four_processes(four: Processes, name: str) -> None:
    for errors in four.results(compare, name, "zigzag"):
        assert max(errors.values()) < 1e-13, errors


def edges_of_processes(way: Any) -> list[int]:
    divided = distributed.partition(graphs.causal(), 8, by=way)
    query = torch.empty(8, 4, 8, device="meta")
    return [traffic.edges for traffic in divided.report(query, query, query).processes]


def test_zigzag_gives_all_processes_the_same_number_of_edges(two: Processes) -> None:
    assert two.results(edges_of_processes, "ring") == [[36, 100]] * 2
    assert two.results(edges_of_processes, "zigzag") == [[68, 68]] * 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["window", "causal", "bigbird", "bipartite"])
def test_float32(two: Processes, name: str, way: str) -> None:
    for errors in two.results(compare, name, way, torch.float32):
        assert max(errors.values()) < 1e-6, errors


def nodes(count: int, **options: Any) -> list[torch.Tensor]:
    torch.manual_seed(dist.get_rank())
    return [torch.randn(count, 4, 8, **options).requires_grad_() for _ in range(3)]


def largest(x: torch.Tensor) -> float:
    return float(x.detach().abs().max())


def attend_twice(way: Any) -> list[bool]:
    torch.manual_seed(7)
    graph = random_edges(40, 40, 400)
    divided = distributed.partition(graph, 20, by=way)
    runs = []
    for _ in range(2):
        local = nodes(20)
        out = distributed.attend(*local, divided)
        out.square().sum().backward()
        runs.append([out, *(x.grad for x in local)])
    return [torch.equal(a, b) for a, b in zip(*runs, strict=True)]


@pytest.mark.parametrize("way", WAYS)
def test_a_partition_is_used_again_and_gives_the_same_bits(two: Processes, way: str) -> None:
    assert two.results(attend_twice, way) == [[True] * 4] * 2


def of_local_edges(way: Any) -> float:
    torch.manual_seed(7)
    graph = random_edges(13, 30, 100)
    targets, sources = (sizes_of(n, 2, dist.get_rank()) for n in (13, 30))
    query, _, _ = nodes(targets.stop - targets.start)
    key, value, _ = nodes(sources.stop - sources.start)
    torch.manual_seed(8)
    bias = torch.randn(100, 4)
    expected = distributed.attend(query, key, value, graph, by=way, bias=bias)
    inside = (graph.target >= targets.start) & (graph.target < targets.stop)
    source, target = graph.edge_index[:, inside]
    local = graphs.edges(torch.stack([source, target - targets.start]), (30, len(query)))
    divided = distributed.partition(local, len(query), len(key), by=way, is_local=True)
    out = divided.attend(query, key, value, bias=bias[inside])
    return largest(out - expected)


@pytest.mark.parametrize("way", ["halo", "ring"])
def test_each_process_may_know_only_its_edges(two: Processes, way: str) -> None:
    assert two.results(of_local_edges, way) == [0.0, 0.0]


def with_dropout(way: Any) -> tuple[float, float, bool]:
    query, key, value = nodes(20, dtype=torch.double)
    torch.manual_seed(10 + dist.get_rank())
    out = distributed.attend(query, key, value, graphs.causal(), by=way, dropout=0.5)
    plain = distributed.attend(query, key, value, graphs.causal(), by=way)
    grad = torch.randn_like(out)
    out.backward(grad)
    products = torch.stack([(grad * out).sum(), (value.grad * value).sum()]).detach()
    dist.all_reduce(products)
    return *products.tolist(), torch.allclose(out, plain)


@pytest.mark.parametrize("way", WAYS)
def test_dropout_drops_the_same_weights_in_backward(two: Processes, way: str) -> None:
    # The output is linear in the values, so <grad, out> = <grad of values, values>.
    for of_output, of_values, is_plain in two.results(with_dropout, way):
        assert of_output == pytest.approx(of_values, rel=1e-12)
        assert not is_plain


def half_precision(way: Any) -> float:
    query, key, value = nodes(20, dtype=torch.bfloat16)
    out = distributed.attend(query, key, value, graphs.causal(), by=way)
    out.sum().backward()
    assert out.dtype == value.grad.dtype == torch.bfloat16
    wide = [x.detach().float() for x in (query, key, value)]
    expected = distributed.attend(*wide, graphs.causal(), by=way)
    return largest(out - expected) / largest(expected)


@pytest.mark.parametrize("way", WAYS)
def test_bfloat16(two: Processes, way: str) -> None:
    assert max(two.results(half_precision, way)) < 2 * torch.finfo(torch.bfloat16).eps


def parameters_of_a_module_score() -> float:
    torch.manual_seed(3)
    bilinear = torch.nn.Bilinear(8, 8, 1).double()

    class Score(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bilinear = bilinear

        def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
            shape = torch.broadcast_shapes(query.shape, key.shape)
            pair = query.expand(shape).contiguous(), key.expand(shape).contiguous()
            return self.bilinear(*pair).squeeze(-1)

    gradients = []
    for way in ("halo", "ring"):
        bilinear.zero_grad()
        query, key, value = nodes(5, dtype=torch.double)
        out = distributed.attend(query, key, value, graphs.causal(), by=way, score=Score())
        out.square().sum().backward()
        gradients.append(bilinear.weight.grad.clone())
    return largest(gradients[0] - gradients[1])


def test_parameters_of_a_score_have_gradients_on_a_ring(two: Processes) -> None:
    assert max(two.results(parameters_of_a_module_score)) < 1e-13


def one_process() -> float:
    alone = dist.new_group([0])
    if dist.get_rank():
        return 0.0
    query, key, value = nodes(20)
    expected = ew.attend(query, key, value, graphs.causal())
    outputs = [distributed.attend(query, key, value, graphs.causal(), alone, by=w) for w in WAYS]
    sum(outputs).sum().backward()
    return max(largest(out - expected) for out in outputs)


def test_a_group_of_one_process(two: Processes) -> None:
    assert max(two.results(one_process)) < 1e-6


class Distance(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.rand(8, dtype=torch.double))

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return -((query - key).square() * self.scale).sum(-1)


def gradients_of_dependent_options(way: Any) -> list[torch.Tensor]:
    graph = graphs.complete().bind(5, 10)
    query, key, value = nodes(5, dtype=torch.double)
    edge = torch.randn(graph.num_edges, 4, 8, dtype=torch.double, requires_grad=True)
    score = Distance()
    options: dict[str, Any] = {
        "bias": query.square().sum(-1)[graph.target] + score.scale.mean(),
        "gain": edge.square().sum(-1),
        "edge_key": edge,
        "edge_value": edge,
    }
    divided = distributed.partition(graph, 5, by=way, is_local=True)
    out = divided.attend(query, key, value, score=score, **options)
    inputs = [query, key, value, edge, score.scale]
    return list(torch.autograd.grad(out.square().sum(), inputs))


def differences_from_a_halo() -> list[float]:
    halo, ring = (gradients_of_dependent_options(way) for way in ("halo", "ring"))
    return [largest(a - b) / largest(a) for a, b in zip(halo, ring, strict=True)]


def test_options_of_a_ring_may_be_the_same_tensor_or_depend_on_others(two: Processes) -> None:
    for differences in two.results(differences_from_a_halo):
        assert max(differences) < 1e-13, differences
