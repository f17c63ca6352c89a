"""Dropout of attention weights: seeded, at the right rate, independent, and kept by merging.

Bounds are six standard deviations of the binomial count, for which a healthy run fails once in
5·10⁸; the seed is fixed besides.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES, plan
from edgewise.engines.call import AttentionCall
from edgewise.engines.dropout import dropout_mask
from edgewise.engines.layouts import layout_of
from edgewise.engines.native import library

N, HEADS, BATCH = 40, 3, 4
ENGINE = pytest.mark.parametrize("engine", ["dense", "reference"])
KERNELS = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)


def weights(
    p: float, engine: str = "reference", graph: graphs.Pattern | None = None, seed: int = 0
) -> Tensor:
    """Every weight ``[batch, target, source, head]`` of uniform attention, times N, read off by
    values that are unit vectors."""
    torch.manual_seed(seed)
    query = torch.zeros(BATCH, N, HEADS, 1)
    value = torch.eye(N)[None, :, None].expand(BATCH, N, HEADS, N)
    whole = graph or graphs.complete()
    out = ew.attend(query, query, value, whole, dropout=p, engine=engine)
    return N * out.transpose(-1, -2)


@ENGINE
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_rate_and_scale(p: float, engine: str) -> None:
    given = weights(p, engine)
    kept = given > 0
    torch.testing.assert_close(given[kept], torch.full_like(given[kept], 1 / (1 - p)))
    deviation = (p * (1 - p) / kept.numel()) ** 0.5
    assert abs(kept.double().mean() - (1 - p)) < 6 * deviation
    per_head = (p * (1 - p) / (BATCH * N * N)) ** 0.5
    assert (kept.double().mean((0, 1, 2)) - (1 - p)).abs().max() < 6 * per_head
    per_member = (p * (1 - p) / (HEADS * N * N)) ** 0.5
    assert (kept.double().mean((1, 2, 3)) - (1 - p)).abs().max() < 6 * per_member


@KERNELS
@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("engine", ["rows", "tiles"])
def test_double_precision_keeps_weights_at_double_precision(p: float, engine: str) -> None:
    """Of uniform attention a kept weight is 1 / (N (1 - p)), and so is its value's gradient."""
    torch.manual_seed(0)
    query = torch.zeros(N, 2, 8, dtype=torch.float64)
    value = torch.eye(N, dtype=torch.float64)[:, None].expand(N, 2, N).clone().requires_grad_()
    out = ew.attend(query, query, value, graphs.complete(), dropout=p, engine=engine)
    (gradient,) = torch.autograd.grad(out.sum(), value)
    kept = (out > 0).double() / (N * (1 - p))  # [target, head, source]
    torch.testing.assert_close(out, kept, rtol=1e-14, atol=0)
    summed = kept.sum(0).T[..., None].expand_as(gradient)
    torch.testing.assert_close(gradient, summed, rtol=1e-14, atol=0)


@ENGINE
def test_heads_members_and_neighbours_are_independent(engine: str) -> None:
    kept = (weights(0.5, engine) > 0).double() * 2 - 1  # fair coins, ±1
    pairs = [(kept[..., a], kept[..., b]) for a, b in [(0, 1), (0, 2), (1, 2)]]
    pairs += [(kept[a], kept[b]) for a in range(BATCH) for b in range(a)]
    pairs += [(kept[:, :, 1:], kept[:, :, :-1]), (kept[:, 1:], kept[:, :-1])]
    for left, right in pairs:
        assert abs((left * right).mean()) < 6 / left.numel() ** 0.5


@ENGINE
def test_the_same_seed_gives_the_same_result(engine: str) -> None:
    assert weights(0.5, engine).equal(weights(0.5, engine))
    assert not weights(0.5, engine).equal(weights(0.5, engine, seed=1))


@ENGINE
def test_two_calls_in_a_row_differ(engine: str) -> None:
    x = torch.randn(N, 1, 4)
    first, second = (
        ew.attend(x, x, x, graphs.complete(), dropout=0.5, engine=engine) for _ in range(2)
    )
    assert not first.equal(second)


@ENGINE
def test_dropping_everything_gives_zeros(engine: str) -> None:
    x = torch.randn(N, 1, 4, requires_grad=True)
    out = ew.attend(x, x, x, graphs.causal(), dropout=1.0, engine=engine)
    assert (out == 0).all()
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert (gradient == 0).all()


@ENGINE
def test_no_dropout_draws_no_random_numbers(engine: str) -> None:
    before = torch.get_rng_state()
    x = torch.randn(N, 1, 4, generator=torch.Generator().manual_seed(1))
    ew.attend(x, x, x, graphs.complete(), engine=engine)
    assert torch.get_rng_state().equal(before)


def test_parts_of_a_union_draw_the_mask_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    union = graphs.window(2) | graphs.hubs([0]) | graphs.random(3)
    whole = weights(0.5, "reference", union)
    monkeypatch.delitem(ENGINES, "dense")
    reference = type(ENGINES["reference"])
    monkeypatch.setattr(
        plan,
        "estimates",
        lambda problem, engines: {e: -float(problem.lse and e == "reference") for e in engines},
    )
    monkeypatch.setattr(reference, "attend", None)  # the whole is not run
    torch.testing.assert_close(weights(0.5, "auto", union), whole)


@KERNELS
@pytest.mark.parametrize("engine", ["rows", "tiles"])
def test_a_part_of_a_graph_draws_its_share_of_the_mask(engine: str) -> None:
    """Its first edge is not number 0."""
    graph = graphs.batch(graphs.complete(), [3, 70, 1, 8])
    query, key, value = torch.randn(3, 82, 3, 8, dtype=torch.float64)
    call = AttentionCall(
        query, key, value, torch.Size([]), ew.Dot(), dropout=0.5, seed=3, first_edge=1000
    )
    ours, theirs = (
        ENGINES[name].attend(call, layout_of(graph, ENGINES[name].layout))
        for name in (engine, "reference")
    )
    torch.testing.assert_close(ours, theirs)


@ENGINE
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)], ids=str)
@pytest.mark.parametrize("graph", [graphs.empty().bind(3), graphs.complete().bind(0)], ids=repr)
def test_no_edges(graph: graphs.Graph, batch: tuple[int, ...], engine: str) -> None:
    x = torch.randn(*batch, graph.num_targets, 2, 4)
    out = ew.attend(x, x, x, graph, dropout=0.5, engine=engine)
    assert out.shape == x.shape
    assert (out == 0).all()


def test_gradients_are_those_of_the_mask_that_was_drawn() -> None:
    graph = graphs.complete().bind(3)
    x = torch.randn(2, 3, 2, 2, dtype=torch.float64, requires_grad=True)

    def run(x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return ew.attend(x, x, x, graph, dropout=0.4, engine="reference")

    assert torch.autograd.gradcheck(run, [x])


def test_the_mask_of_a_part_is_a_part_of_the_mask() -> None:
    shape = {"batch": 2, "heads": 3, "like": torch.empty(0)}
    whole = dropout_mask(5 << 40, 0.3, first_edge=0, edges=50, **shape)
    part = dropout_mask(5 << 40, 0.3, first_edge=20, edges=10, **shape)
    assert part.equal(whole[:, 20:30])
    assert not whole[:, 20:30].equal(whole[:, 30:40])
    assert not dropout_mask(5, 0.3, first_edge=0, edges=50, **shape).equal(whole)
