"""What the tiles engine promises beyond right numbers: joint tensors, operators, safety."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines.native import library
from edgewise.engines.tiles import TILE
from edgewise.engines.tiles.attend import tiles_attend
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.graphs import Graph, Pattern
from edgewise.layers.attention import unbind_joint
from edgewise.layouts import GROUP, graph_facts, layout_of
from tests.engines.cases import GRAPHS

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)


def nodes(
    graph: Graph, width: int, value_width: int, batch: tuple[int, ...] = (2,), heads: int = 3
) -> list[Tensor]:
    torch.manual_seed(graph.num_edges)
    sizes = [(graph.num_targets, width), (graph.num_sources, width)]
    sizes.append((graph.num_sources, value_width))
    return [
        torch.randn(*batch, n, heads, d, dtype=torch.float64, requires_grad=True) for n, d in sizes
    ]


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_three_in_one_tensor_have_one_gradient(
    batch: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written in one piece, and not put together of three."""
    joint = torch.randn(*batch, 70, 3, 2, 16, requires_grad=True)
    apart = ew.attend(*joint.unbind(-3), graphs.causal(), engine="tiles")
    (expected,) = torch.autograd.grad(apart.square().sum(), joint)
    together = ew.attend(*unbind_joint(joint), graphs.causal(), engine="tiles")
    monkeypatch.setattr(torch, "stack", None)
    (got,) = torch.autograd.grad(together.square().sum(), joint)
    assert together.equal(apart)
    assert got.equal(expected)


def test_three_in_one_tensor_that_others_read_too() -> None:
    joint = torch.randn(9, 3, 2, 4, requires_grad=True)

    def loss(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out = ew.attend(query, key, value, graphs.causal(), engine="tiles")
        return out.square().sum() + (key * query).sum()

    (expected,) = torch.autograd.grad(loss(*joint.unbind(1)), joint)
    (got,) = torch.autograd.grad(loss(*unbind_joint(joint)), joint)
    torch.testing.assert_close(got, expected)


def test_scores_that_grow_along_the_tiles() -> None:
    """The running maximum changes in every tile, and what was summed before shrinks."""
    graph = graphs.complete().bind(12, 5 * TILE)
    query, key, value = nodes(graph, 4, 6)
    growing = torch.linspace(0, 30, 5 * TILE, dtype=torch.float64)[:, None, None]
    outcomes = []
    for engine in ("tiles", "reference"):
        out, lse = ew.attend_with_lse(query, key * growing, value, graph, engine=engine)
        total = out.sin().sum() + lse.sum()
        outcomes.append([out, lse, *torch.autograd.grad(total, (query, key, value))])
    for ours, theirs in zip(*outcomes, strict=True):
        torch.testing.assert_close(
            ours, theirs, rtol=0, atol=1e-11 * float(theirs.detach().abs().max())
        )


def test_other_runs_and_edge_terms_are_refused() -> None:
    x = torch.randn(8, 2, 4)
    refused = {
        "one run of neighbouring": (graphs.window(2, dilation=2), {}),
        "Dot, and no other": (graphs.causal(), {"score": None, "bias": torch.randn(36, 2)}),
        "no place in its products": (graphs.causal(), {"bias": torch.randn(36, 2)}),
    }
    for reason, (graph, options) in refused.items():
        with pytest.raises(ew.ArgumentError, match=reason):
            ew.attend(x, x, x, graph, engine="tiles", **options)
    with pytest.raises(ew.ArgumentError, match="attention alone"):
        ew.aggregate(x, graphs.causal(), engine="tiles")


def test_the_pairs_that_groups_span() -> None:
    assert GROUP == 8
    assert graph_facts(graphs.complete().bind(16, 10))["tiled"] == 16 * 10
    assert graph_facts(graphs.causal().bind(16))["tiled"] == 8 * 8 + 8 * 16
    assert graph_facts(graphs.causal().bind(9))["tiled"] == 8 * 8 + 8 * 9
    assert graph_facts(GRAPHS["empty runs"])["tiled"] == 0
    assert graph_facts(graphs.window(1, dilation=3).bind(9))["tiled"] is None
    assert graph_facts(graphs.random(2).bind(9))["tiled"] is None


def operator_arguments(**changes: Any) -> tuple[Any, ...]:
    layout = layout_of(graphs.batch(graphs.causal(), [9, 5]), TilesLayout)
    tensors = [changes.get(n, getattr(layout, n)) for n in ("start", "stop", "edge")]
    tensors += [changes.get(n, getattr(layout, n)) for n in ("block", "unit")]
    given = [torch.randn(2, 14, 2, 8, requires_grad=True) for _ in range(3)]
    return *given, tensors, 60, 0.3, 0.25, 7, 2, True


def test_the_operator_is_well_formed() -> None:
    torch.library.opcheck(tiles_attend.operator, operator_arguments())


def test_compiles_without_a_break() -> None:
    causal, window = graphs.causal().bind(12), graphs.window(3).bind(12)

    def run(*given: Tensor) -> Tensor:
        out, lse = ew.attend_with_lse(*given, causal, engine="tiles")
        return (
            out.square().sum()
            + lse.sum()
            + ew.attend(*torch.stack(given, 1).unbind(1), window).sum()
        )

    given = [torch.randn(12, 4, 8, requires_grad=True) for _ in range(3)]
    with ew.using_engine("tiles"):
        expected = torch.autograd.grad(run(*given), given)  # makes the layouts
        torch._dynamo.reset()
        compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
        got = torch.autograd.grad(compiled(*given), given)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


INT = {"dtype": torch.int32}
HOSTILE = {
    "a source before the unit": {"start": torch.full((14,), -1, **INT)},
    "a source after the unit": {"stop": torch.full((14,), 15, **INT)},
    "another unit's source": {"start": torch.zeros(14, **INT)},
    "a row that is not there": {"block": torch.tensor([0, 9, 15], **INT)},
    "rows before the first": {"block": torch.tensor([0, -3, 14], **INT)},
    "a block that is not there": {"unit": torch.tensor([[0, 0], [3, 9], [2, 14]], **INT)},
    "too few sources": {"unit": torch.tensor([[0, 0], [1, 9], [2, 13]], **INT)},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_layout_is_refused(name: str) -> None:
    with pytest.raises(library.NativeError, match="does not fit"):
        tiles_attend.operator(*operator_arguments(**HOSTILE[name]))


@pytest.mark.parametrize("graph", [graphs.causal(), graphs.random(3)], ids=repr)
def test_values_of_no_width_are_left_to_others(graph: Pattern) -> None:
    query = torch.randn(30, 2, 8, requires_grad=True)
    value = torch.randn(30, 2, 0, requires_grad=True)
    out, lse = ew.attend_with_lse(query, query, value, graph)
    (gradient,) = torch.autograd.grad(lse.sum(), query)
    assert out.shape == (30, 2, 0)
    assert gradient.isfinite().all()
    assert ew.aggregate(value, graph).shape == (30, 2, 0)
    for engine in ("tiles", "rows"):
        with pytest.raises(ew.ArgumentError, match="width 0"):
            ew.attend(query, query, value, graph, engine=engine)


@pytest.mark.filterwarnings("ignore")  # of sizes that a trace takes for constants
def test_a_trace_keeps_the_kernel() -> None:
    graph = graphs.causal().bind(100)
    query, other = torch.randn(2, 2, 100, 4, 32)
    traced = torch.jit.trace(lambda x: ew.attend(x, x, x, graph), query, check_trace=False)
    torch.testing.assert_close(traced(other), ew.attend(other, other, other, graph))


def test_tensors_that_hold_no_numbers_go_through_the_dispatcher() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    plain = torch.randn(2, 100, 4, 8)
    for graph in (graphs.causal(), graphs.random(3)):
        expected = ew.attend(plain, plain, plain, graph)
        both = TwoTensor(plain, plain.clone())
        torch.testing.assert_close(ew.attend(both, both, both, graph).b, expected)


@pytest.mark.parametrize("graph", [graphs.causal(), graphs.window(2), graphs.random(3)], ids=repr)
def test_function_transforms_do_without_kernels(graph: Pattern) -> None:
    x = torch.randn(3, 100, 2, 8, dtype=torch.float64)

    def loss(x: Tensor) -> Tensor:
        return ew.attend(x, x, x, graph).square().sum()

    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(loss)(x), expected)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(x), expected)
    _, slope = torch.func.jvp(loss, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(slope, expected.sum())


def test_a_view_with_another_sign_is_read_with_it() -> None:
    x = torch.randn(20, 2, 4)
    for graph in (graphs.causal(), graphs.random(3)):
        out = ew.attend(x, x, torch._neg_view(x), graph)
        torch.testing.assert_close(out, -ew.attend(x, x, x, graph))
