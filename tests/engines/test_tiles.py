"""The tiles engine against the reference: every run of sources, every size around a tile's edge."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.engines.call import AttentionCall
from edgewise.engines.native import library
from edgewise.engines.tiles import TILE
from edgewise.engines.tiles.attend import tiles_attend
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.graphs import Graph, Intervals, Pattern
from edgewise.layers.attention import unbind_joint
from edgewise.layouts import GROUP, graph_facts, layout_of
from tests.engines.calls import Call, assert_same, results

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)

BLOCK = TilesLayout.BLOCK
Results = tuple[list[Tensor], list[Tensor]]


def runs(spans: list[tuple[int, int]], sources: int) -> Graph:
    start, stop = torch.tensor(spans).T
    return Intervals(start.contiguous(), stop.contiguous(), sources)


def any_runs(targets: int, sources: int, seed: int = 0) -> Graph:
    """Runs in no order, of any length, many of them empty."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(sources + 1, (targets, 2), generator=generator).sort(1).values
    ends[::5, 1] = ends[::5, 0]
    return Intervals(ends[:, 0].contiguous(), ends[:, 1].contiguous(), sources)


GRAPHS: dict[str, Graph] = {
    "one": graphs.complete().bind(1),
    "two": graphs.causal().bind(2),
    "causal, a group and one": graphs.causal().bind(9),
    "complete, less than a vector": graphs.complete().bind(13, 5),
    "causal, a block less one": graphs.causal().bind(BLOCK - 1),
    "causal, a block": graphs.causal().bind(BLOCK),
    "causal, a block and one": graphs.causal().bind(BLOCK + 1),
    "complete, a tile and one": graphs.complete().bind(40, TILE + 1),
    "causal, tiles": graphs.causal().bind(2 * TILE + 7),
    "decoding one": graphs.causal().bind(1, TILE + 3),
    "decoding three": graphs.causal().bind(3, 30),
    "window": graphs.window(3).bind(2 * BLOCK + 5),
    "wide window": graphs.window(TILE).bind(3 * TILE),
    "blocks": graphs.blocks(10).bind(47),
    "packed": graphs.batch(graphs.complete(), [3, 70, 1, 130, 8]),
    "packed causal": graphs.batch(graphs.causal(), [65, 2, 64]),
    "packed, some empty": graphs.batch(graphs.complete(), [0, 4, 0, 0, 9, 0]),
    "packed pairs": graphs.batch(graphs.complete(), [5, 66, 0, 2], [70, 3, 4, 0]),
    "nothing read": runs([(0, 0)] * 10, 12),
    "no targets": graphs.complete().bind(0, 5),
    "no sources": graphs.complete().bind(5, 0),
    "far apart in a group": runs([(0, 2), (290, 300), (5, 5), (130, 131)] * 3, 300),
    "backwards": runs([(150 - i, 200 - i) for i in range(150)], 200),
    "any": any_runs(150, 290),
}
WIDTHS = [(1, 1), (3, 5), (16, 16), (20, 33), (32, 64), (64, 7)]


def nodes(
    graph: Graph, width: int, value_width: int, batch: tuple[int, ...] = (2,), heads: int = 3
) -> list[Tensor]:
    torch.manual_seed(graph.num_edges)
    sizes = [(graph.num_targets, width), (graph.num_sources, width)]
    sizes.append((graph.num_sources, value_width))
    return [
        torch.randn(*batch, n, heads, d, dtype=torch.float64, requires_grad=True) for n, d in sizes
    ]


def outcome(given: list[Tensor], graph: Pattern, engine: str, **options: Any) -> Results:
    """Output, log-sum-exp and gradients of both."""
    torch.manual_seed(5)
    call = Call(tuple(given), options, given)
    return results(ew.attend_with_lse, call, graph, engine=engine)


def agree(
    given: list[Tensor], graph: Pattern, tolerance: float = 1e-12, **options: Any
) -> list[Tensor]:
    ours, theirs = (outcome(given, graph, name, **options) for name in ("tiles", "reference"))
    assert_same(ours, theirs, tolerance)
    return ours[0] + ours[1]


@pytest.mark.parametrize("name", GRAPHS)
def test_agrees_with_the_reference(name: str) -> None:
    agree(nodes(GRAPHS[name], 20, 33), GRAPHS[name])


@pytest.mark.parametrize(("width", "value_width"), WIDTHS)
@pytest.mark.parametrize("name", ["causal, tiles", "packed", "any"])
def test_every_width(name: str, width: int, value_width: int) -> None:
    agree(nodes(GRAPHS[name], width, value_width, batch=()), GRAPHS[name])


@pytest.mark.parametrize("name", ["causal, tiles", "packed", "any", "window"])
@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_dropout_draws_the_mask_of_the_reference(name: str, rate: float) -> None:
    """The mask is drawn by edge, head and member, in both passes."""
    out = agree(nodes(GRAPHS[name], 8, 8), GRAPHS[name], dropout=rate)[0]
    assert bool(out.any()) == (rate < 1)


def test_a_part_of_a_graph_draws_its_share_of_the_mask() -> None:
    """Its first edge is not number 0."""
    graph = GRAPHS["packed"]
    call = AttentionCall(
        *nodes(graph, 8, 8), torch.Size([2]), ew.Dot(), dropout=0.5, seed=3, first_edge=1000
    )
    ours, theirs = (
        ENGINES[name].attend(call, layout_of(graph, ENGINES[name].layout))
        for name in ("tiles", "reference")
    )
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_leading_dimensions_and_strides(batch: tuple[int, ...]) -> None:
    graph = graphs.causal().bind(20)
    given = nodes(graph, 8, 8, batch)
    expected = agree(given, graph)
    apart = [x.detach().transpose(-2, -3).contiguous().transpose(-2, -3) for x in given]
    spread = [torch.stack([x, x], -1)[..., 0] for x in apart]
    for other in (apart, spread):
        leaves = [x.requires_grad_() for x in other]
        outputs, gradients = outcome(leaves, graph, "tiles")
        assert all(a.equal(b) for a, b in zip(outputs + gradients, expected, strict=True))


def test_members_that_share_keys_sum_their_gradients() -> None:
    graph = graphs.causal().bind(20)
    query = nodes(graph, 8, 8, (2, 3))[0]
    _, key, value = nodes(graph, 8, 8, (3,))
    agree([query, key, value], graph)


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


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_only_the_gradients_that_are_needed(wanted: tuple[int, ...]) -> None:
    given = [x.detach() for x in nodes(GRAPHS["packed pairs"], 8, 8)]
    leaves = [given[i].requires_grad_() for i in wanted]
    ours, theirs = (
        torch.autograd.grad(
            ew.attend(*given, GRAPHS["packed pairs"], engine=engine).square().sum(), leaves
        )
        for engine in ("tiles", "reference")
    )
    for mine, true in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, true)


def test_gradients_by_finite_differences() -> None:
    for name in ("packed pairs", "far apart in a group", "causal, a group and one"):
        graph = GRAPHS[name]

        def run(*given: Tensor, graph: Graph = graph) -> tuple[Tensor, Tensor]:
            out, lse = ew.attend_with_lse(*given, graph, engine="tiles")
            return out, lse.masked_fill(lse.isinf(), 0)

        assert torch.autograd.gradcheck(run, nodes(graph, 3, 5), fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["causal, tiles", "packed", "window", "any"])
def test_low_precision_is_no_worse_than_rounding(name: str, dtype: torch.dtype) -> None:
    """Error at most twice that of the reference in the same type, both against float64."""
    graph = GRAPHS[name]
    given = [x.detach().to(dtype) for x in nodes(graph, 24, 24)]

    def rounded_in(engine: str, kind: torch.dtype) -> list[Tensor]:
        leaves = [x.to(kind).requires_grad_() for x in given]
        out = ew.attend(*leaves, graph, engine=engine)
        assert out.dtype == kind
        grads = torch.autograd.grad(out.double().sin().sum(), leaves)
        return [x.double() for x in (out, *grads)]

    true = rounded_in("reference", torch.float64)
    book, ours = rounded_in("reference", dtype), rounded_in("tiles", dtype)
    for exact, rounded, mine in zip(true, book, ours, strict=True):
        unit = 8 * torch.finfo(dtype).eps * exact.abs().max()
        assert (mine - exact).abs().max() <= 2 * (rounded - exact).abs().max() + unit


def test_any_number_of_threads_gives_the_same_bits() -> None:
    given = [x.detach().float().requires_grad_() for x in nodes(GRAPHS["packed"], 16, 16)]
    before = torch.get_num_threads()
    try:
        outcomes = []
        for threads in (1, 2, 3, 1):
            torch.set_num_threads(threads)
            outputs, gradients = outcome(given, GRAPHS["packed"], "tiles", dropout=0.2)
            outcomes.append(outputs + gradients)
    finally:
        torch.set_num_threads(before)
    for other in outcomes[1:]:
        assert all(a.equal(b) for a, b in zip(outcomes[0], other, strict=True))


def test_large_scores_neither_overflow_nor_lose_the_sum() -> None:
    given = [x.detach().float() for x in nodes(GRAPHS["causal, tiles"], 8, 8)]
    given[0] *= 1e4
    out, lse = ew.attend_with_lse(*given, GRAPHS["causal, tiles"], engine="tiles")
    wide = (x.double() for x in given)
    true, exact = ew.attend_with_lse(*wide, GRAPHS["causal, tiles"], engine="reference")
    rounding = 8 * torch.finfo(torch.float32).eps * float(exact.abs().max())  # of a score's sum
    torch.testing.assert_close(lse.double(), exact, rtol=0, atol=rounding)
    torch.testing.assert_close(out.double(), true, rtol=1e-2, atol=1e-2)


def test_scores_that_grow_along_the_tiles() -> None:
    """The running maximum changes in every tile, and what was summed before shrinks."""
    graph = graphs.complete().bind(12, 5 * TILE)
    given = nodes(graph, 4, 6)
    given[1] = (given[1].detach() * torch.linspace(0, 30, 5 * TILE)[:, None, None]).requires_grad_()
    agree(given, graph, tolerance=1e-11)


def test_nan_is_neither_hidden_nor_spread() -> None:
    x = torch.randn(20, 2, 8)
    query = x.clone()
    query[3] = torch.nan
    out = ew.attend(query, x, x, graphs.causal(), engine="tiles")
    assert out[3].isnan().all()
    assert out[[i for i in range(20) if i != 3]].isfinite().all()


def test_second_derivatives_are_refused_and_not_wrong() -> None:
    x = torch.randn(5, 2, 8).requires_grad_()
    out = ew.attend(x, x, x, graphs.causal(), engine="tiles")
    (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives"):
        grad.sum().backward()


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
    assert graph_facts(GRAPHS["nothing read"])["tiled"] == 0
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


@pytest.mark.parametrize("name", ["value", "key", "query"])
def test_what_is_not_read_may_be_infinite(name: str) -> None:
    """Neither outputs nor gradients of who does not read it become NaN."""
    graph = graphs.window(1).bind(20)
    given = dict(zip(("query", "key", "value"), nodes(graph, 4, 4, ()), strict=True))
    with torch.no_grad():
        given[name][5] = torch.inf
    outcomes = []
    for engine in ("tiles", "reference"):
        out = ew.attend(*given.values(), graph, engine=engine)
        outcomes.append([out, *torch.autograd.grad(out[[0, 1, 2, 3, 8, 9]].sum(), given.values())])
    for ours, theirs in zip(*outcomes, strict=True):
        near = ours.new_zeros(20, dtype=torch.bool)
        near[3:8] = True  # reads it, or is read together with it
        torch.testing.assert_close(ours[~near], theirs[~near])


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
