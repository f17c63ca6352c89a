"""Calls of ``attend`` whose nodes are divided among processes, next to the same on one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import edgewise as ew
from edgewise import distributed, graphs


@dataclass
class Case:
    """A graph, the sizes of its call, and options; tensors that require gradients are compared."""

    graph: graphs.Pattern
    targets: int = 11
    sources: int = 11
    heads: int = 4
    key_heads: int = 4
    batch: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    parameters: list[Tensor] = field(default_factory=list)


def random_edges(targets: int, sources: int, edges: int) -> graphs.Graph:
    index = torch.stack([torch.randint(sources, (edges,)), torch.randint(targets, (edges,))])
    return graphs.edges(index, (sources, targets))


def with_terms(case: Case, *names: str) -> Case:
    edges = case.graph.bind(case.targets, case.sources).num_edges
    for name in names:
        shape = (edges, case.heads) if name in ("bias", "gain") else (edges, case.heads, 3)
        term = torch.randn(shape, dtype=torch.double, requires_grad=True)
        case.options[name] = term
        case.parameters.append(term)
    return case


def tables() -> Case:
    case = Case(graphs.window(2) | graphs.hubs([4]))
    edges = case.graph.bind(11).num_edges
    table = torch.randn(5, 4, dtype=torch.double, requires_grad=True)
    features, weight = (
        torch.randn(edges, 2).double(),
        torch.randn(4, 3, 2).double().requires_grad_(),
    )
    case.options = {
        "bias": ew.TableBias(torch.randint(5, (edges,)), table),
        "edge_value": ew.Projected(features, weight),
    }
    case.parameters = [table, weight]
    return case


def offsets(pattern: graphs.Pattern, nodes: int = 11) -> Case:
    place, graph, most = torch.arange(nodes), pattern.bind(nodes), nodes - 1
    classes = (most - torch.arange(2 * nodes - 1)).clamp(-3, 3) + 3
    table = torch.randn(7, 4, dtype=torch.double, requires_grad=True)
    bias = ew.OffsetBias(ew.Offsets(place - most, place, classes, graph), table)
    return Case(graph, nodes, nodes, options={"bias": bias}, parameters=[table])


def additive() -> Case:
    weight = torch.randn(4, 3, dtype=torch.double, requires_grad=True)
    options = {"score": ew.Additive(weight=weight)}
    return Case(random_edges(11, 11, 40), options=options, parameters=[weight])


def entmax() -> Case:
    alpha = torch.tensor([1.2, 1.5, 1.7, 2.0], dtype=torch.double)
    return Case(graphs.window(3), options={"normaliser": ew.Entmax(alpha)})


def permuted() -> Case:
    perm = torch.randperm(11)
    return Case(graphs.Permuted(graphs.window(2).bind(11), perm, perm.flip(0)))


CASES: dict[str, Callable[[], Case]] = {
    "window": lambda: Case(graphs.window(2)),
    "dilated": lambda: Case(graphs.window(2, dilation=3), 23, 23),
    "causal": lambda: Case(graphs.causal()),
    "cross": lambda: Case(graphs.complete(), 7, 12),
    "decoding": lambda: Case(graphs.causal() & graphs.window(3), 5, 12),
    "hubs": lambda: Case(graphs.window(1) | graphs.hubs([3, 9])),
    "bigbird": lambda: Case(graphs.window(1) | graphs.hubs([0]) | graphs.random(2, seed=0)),
    "blocks": lambda: Case(graphs.blocks(4)),
    "runs": lambda: Case(graphs.complete() - graphs.window(1)),
    "grid": lambda: Case(graphs.grid(3, 4), 12, 12),
    "packed": lambda: Case(graphs.batch(graphs.window(1) | graphs.hubs([0]), [4, 1, 6])),
    "edges": lambda: Case(random_edges(11, 11, 30)),
    "bipartite": lambda: Case(random_edges(6, 13, 20), 6, 13),
    "no edges": lambda: Case(graphs.empty()),
    "permuted": permuted,
    "batch": lambda: Case(random_edges(11, 11, 30), batch=(2, 3)),
    "grouped heads": lambda: Case(graphs.causal(), key_heads=1),
    "edge terms": lambda: with_terms(Case(random_edges(11, 11, 30)), "bias", "gain"),
    "edge vectors": lambda: with_terms(Case(graphs.window(2)), "edge_key", "edge_value"),
    "tables": tables,
    "offsets": lambda: offsets(graphs.causal()),
    "offsets, window": lambda: offsets(graphs.window(2)),
    "additive": additive,
    "no score": lambda: with_terms(Case(graphs.window(2), options={"score": None}), "bias"),
    "entmax": entmax,
}


BALANCED: dict[str, Callable[[], Case]] = {
    "causal": lambda: Case(graphs.causal(), 16, 16),
    "window": lambda: Case(graphs.window(3), 16, 16, batch=(2,)),
    "complete": lambda: Case(graphs.complete(), 16, 16, key_heads=2),
    "edge terms": lambda: with_terms(Case(graphs.causal(), 16, 16), "bias", "gain", "edge_key"),
    "offsets": lambda: offsets(graphs.causal(), 16),
}
"""Those of which each of two or four processes has an early and a late slice."""


def gradient_of(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


def sizes_of(total: int, count: int, rank: int) -> slice:
    """Uneven slices of all nodes: the first process has none, if there are more than two."""
    weights = [1, 2] if count == 2 else [0, 1, 3, 2]
    ends = [total * sum(weights[: r + 1]) // sum(weights) for r in range(count)]
    return slice(ends[rank - 1] if rank else 0, ends[rank])


def compare(name: str, way: Any, dtype: torch.dtype = torch.double) -> dict[str, float]:
    """Largest differences of output and gradients from those of one process."""
    torch.manual_seed(5)
    case = (BALANCED if way == "zigzag" else CASES)[name]()
    query = torch.randn(*case.batch, case.targets, case.heads, 3, dtype=dtype)
    key = torch.randn(*case.batch, case.sources, case.key_heads, 3, dtype=dtype)
    value = torch.randn(*case.batch, case.sources, case.key_heads, 3, dtype=dtype)
    cotangent = torch.randn(*case.batch, case.targets, case.heads, 3, dtype=dtype)
    nodes = [x.requires_grad_() for x in (query, key, value)]
    expected = ew.attend(*nodes, case.graph, engine="reference", **case.options)
    gradients = torch.autograd.grad(
        expected, [*nodes, *case.parameters], cotangent, materialize_grads=True
    )

    rank, count = dist.get_rank(), dist.get_world_size()
    targets, sources = (sizes_of(n, count, rank) for n in (case.targets, case.sources))
    if way == "zigzag":
        divided = distributed.partition(case.graph, case.targets // count, by=way)
        targets = sources = divided.positions
    slices = targets, sources, sources
    local = [
        x.detach()[..., rows, :, :].requires_grad_() for x, rows in zip(nodes, slices, strict=True)
    ]
    out = distributed.attend(*local, case.graph, by=way, **case.options)
    out.backward(cotangent[..., targets, :, :])
    difference = {"output": out - expected[..., targets, :, :]}
    for label, x, rows, gradient in zip(
        ("query", "key", "value"), local, slices, gradients[:3], strict=True
    ):
        difference[label] = gradient_of(x) - gradient[..., rows, :, :]
    for number, (x, gradient) in enumerate(zip(case.parameters, gradients[3:], strict=True)):
        total = gradient_of(x)
        dist.all_reduce(total)
        difference[f"parameter {number}"] = total - gradient
    largest = {label: x.detach().abs().max() for label, x in difference.items() if x.numel()}
    return {label: float(x) for label, x in largest.items()}
