"""Derivatives of gradients, which the kernels leave to the formula of the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs

N, H, D = 6, 2, 3
EDGES = graphs.edges(torch.tensor([[0, 1, 2, 2, 4, 4, 1], [1, 1, 1, 0, 0, 3, 1]]), N)
E = EDGES.num_edges
NODES = [(N, H, D)] * 3
KIND = torch.arange(E) % 3

Run = Callable[..., Tensor | tuple[Tensor, Tensor]]
ON_ROWS: dict[str, tuple[Run, list[tuple[int, ...]]]] = {
    "dot": (lambda q, k, v: ew.attend(q, k, v, EDGES), NODES),
    "batch": (lambda q, k, v: ew.attend(q, k, v, EDGES), [(2, N, H, D), (N, H, D), (2, N, H, D)]),
    "no score": (
        lambda v, bias: ew.attend(v, v, v, EDGES, score=None, bias=bias),
        [(N, H, D), (E, H)],
    ),
    "GAT": (
        lambda q, k, v: ew.attend(q, k, v, EDGES, score=ew.Additive()),
        [(N, H, 1), (N, H, 1), (N, H, D)],
    ),
    "GATv2": (
        lambda q, k, v, a: ew.attend(q, k, v, EDGES, score=ew.Additive(weight=a)),
        [*NODES, (H, D)],
    ),
    **{
        name: (
            lambda q, k, v, a, name=name: ew.attend(q, k, v, EDGES, score=ew.Additive(name, a)),
            [*NODES, (H, D)],
        )
        for name in ("tanh", "gelu", "silu")
    },
    "terms": (
        lambda q, k, v, bias, gain, edge_key, edge_value: ew.attend(
            q, k, v, EDGES, bias=bias, gain=gain, edge_key=edge_key, edge_value=edge_value
        ),
        [*NODES, (E, H), (E, 1), (E, H, D), (E, H, D)],
    ),
    "table and projections": (
        lambda q, k, v, table, features, w: ew.attend(
            q,
            k,
            v,
            EDGES,
            bias=ew.TableBias(KIND, table),
            edge_key=ew.Projected(features, w),
            edge_value=ew.Projected(features, w),
        ),
        [*NODES, (3, H), (E, 2), (H, D, 2)],
    ),
    "log-sum-exp": (
        lambda q, k, v: ew.attend_with_lse(q, k, v, EDGES.with_self_loops()),
        NODES,
    ),
    "scores": (lambda q, k: ew.edge_scores(q, k, EDGES), NODES[:2]),
    "softmax": (lambda scores: ew.edge_softmax(scores, EDGES), [(E, H)]),
    "sum": (lambda v, weight: ew.aggregate(v, EDGES, weight=weight), [(N, H, D), (E, H)]),
    "mean": (lambda v: ew.aggregate(v, EDGES, reduce="mean"), [(2, N, H, D)]),
    "max": (
        lambda v, weight: ew.aggregate(v, EDGES, weight=weight, reduce="max"),
        [(N, H, D), (E, H)],
    ),
}


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", ON_ROWS)
def test_gradients_on_rows_have_derivatives(name: str) -> None:
    run, shapes = ON_ROWS[name]
    leaves = [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    with ew.using_engine("rows"):
        torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


def derivatives(run: Run, shapes: list[tuple[int, ...]], engine: str) -> list[Tensor]:
    """Return the first three derivatives of a sum of squares."""
    torch.manual_seed(0)
    leaves = [torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    with ew.using_engine(engine):
        out = run(*leaves)
    total = out.square().sum() if isinstance(out, Tensor) else sum(x.square().sum() for x in out)
    every: list[Tensor] = []
    for _ in range(3):
        grads = torch.autograd.grad(total, leaves, create_graph=True)
        every += grads
        total = sum(grad.square().sum() for grad in grads)
    return every


def same_derivatives(run: Run, shapes: list[tuple[int, ...]], engine: str) -> None:
    mine, other = (derivatives(run, shapes, name) for name in (engine, "reference"))
    torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-7)


def test_the_same_weights_are_dropped_again() -> None:
    same_derivatives(lambda q, k, v: ew.attend(q, k, v, EDGES, dropout=0.5), NODES, "rows")


PATTERNS = {
    "causal": graphs.causal().bind(N),
    "union": (graphs.window(1) | graphs.hubs([3])).bind(N),
    "batch": graphs.batch(graphs.causal(), [2, 4]),
    "permuted": graphs.Permuted(
        graphs.causal().bind(N), torch.arange(N).flip(0), torch.arange(N).roll(2)
    ),
}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", PATTERNS)
def test_gradients_on_tiles_have_derivatives(name: str) -> None:
    graph, place = PATTERNS[name], torch.arange(N)
    offsets = ew.Offsets(place - (N - 1), place, torch.arange(2 * N - 1) % 4, graph)
    runs: list[tuple[Run, list[tuple[int, ...]]]] = [
        (
            lambda q, k, v: ew.attend_with_lse(q, k, v, graph),
            [(2, N, 4, D), (2, N, 2, D), (2, N, 2, D)],
        ),
        (
            lambda q, k, v, bias: ew.attend(q, k, v, graph, bias=bias, dropout=0.3),
            [*NODES, (2, graph.num_edges, H)],
        ),
        (
            lambda q, k, v, table: ew.attend(
                q, k, v, graph, bias=ew.TableBias(graph.target % 3, table)
            ),
            [*NODES, (3, H)],
        ),
        (
            lambda q, k, v, table: ew.attend(
                q, k, v, graph, bias=ew.OffsetBias(offsets, table), score=ew.Dot(0.3)
            ),
            [*NODES, (4, H)],
        ),
    ]
    for run, shapes in runs:
        same_derivatives(run, shapes, "tiles")
