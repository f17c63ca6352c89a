"""What the tiles engine promises beyond right numbers: joint tensors, operators, safety."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.encodings import Buckets, offsets
from edgewise.engines.layouts import graph_facts, layout_of
from edgewise.engines.native import library
from edgewise.engines.tiles import tiles_attend
from edgewise.engines.tiles.layout import GRADIENT, TENSORS, TilesLayout
from edgewise.engines.tiles.schedule import GROUP, LOAD_COST
from edgewise.graphs import Graph, Pattern
from edgewise.layers.transformer import unbind_qkv
from tests.engines.cases import GRAPHS

TILE = TilesLayout.TILE

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
# opcheck of PyTorch 2.14 reads the gradients of tensors that are not leaves.
OPCHECK = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


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
    together = ew.attend(*unbind_qkv(joint.flatten(-3), 2), graphs.causal(), engine="tiles")
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
    (got,) = torch.autograd.grad(loss(*unbind_qkv(joint.flatten(-3), 2)), joint)
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
        "are not ranges": (graphs.random(2), {}),
        "only the score Dot": (graphs.causal(), {"score": None, "bias": torch.randn(36, 2)}),
        "neither gain nor edge vectors": (graphs.causal(), {"gain": torch.randn(36, 2)}),
    }
    for reason, (graph, options) in refused.items():
        with pytest.raises(ew.ArgumentError, match=reason):
            ew.attend(x, x, x, graph, engine="tiles", **options)
    with pytest.raises(ew.ArgumentError, match="attention only"):
        ew.aggregate(x, graphs.causal(), engine="tiles")


def test_the_pairs_that_groups_span() -> None:
    assert GROUP == 8
    assert graph_facts(graphs.complete().bind(16, 10)).tiled == 16 * 10
    assert graph_facts(graphs.causal().bind(16)).tiled == 8 * 8 + 8 * 16
    assert graph_facts(graphs.causal().bind(9)).tiled == 8 * 8 + 8 * 9
    assert graph_facts(GRAPHS["empty runs"]).tiled == 0
    assert graph_facts(graphs.window(1, dilation=3).bind(9)).tiled == 8 * 9 + 8 * 2
    column = graphs.hubs([0], reads=False)
    assert graph_facts((graphs.blocks(8) | column).bind(16)).tiled == 8 * 8 + 8 * 8 + 8
    again = (graphs.blocks(64) | column).bind(128)  # a source that two blocks read
    assert graph_facts(again).tiled == 2 * 64 * 64 + 64 + LOAD_COST
    assert graph_facts((graphs.window(1) | graphs.window(1, 16)).bind(99)).tiled is not None
    assert graph_facts((graphs.window(1) | graphs.window(1, 17)).bind(99)).tiled is None
    assert graph_facts(graphs.random(2).bind(9)).tiled is None


LISTS = graphs.batch(graphs.window(2) | graphs.hubs([0]) | graphs.window(1, 3), [20, 9])
"""Of which every tensor of the layout has something."""


def operator_arguments(**changes: Any) -> tuple[Any, ...]:
    layout = layout_of(LISTS, TilesLayout)
    tensors = [changes.get(n, getattr(layout, n)) for n in (*TENSORS, *GRADIENT)]
    given = [torch.randn(2, 29, 2, 8, requires_grad=True) for _ in range(3)]
    table, edges = torch.randn(1, 5, 2, requires_grad=True), LISTS.num_edges
    index = changes.get("index", torch.arange(edges) % 5)
    places = changes.get("places", (None, None))
    return *given, table, index, *places, tensors, edges, 0.3, 0.25, 7, 2, True


def run_both_ways(*arguments: Any) -> None:
    out, *_ = tiles_attend.operator(*arguments)
    out.sum().backward()


@OPCHECK
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


FIELDS = {
    "row": ("row",),
    "column": ("column",),
    "block": ("block",),
    "block_piece": ("piece",),
    "piece": ("block", "first", "last", "row", "row", "reach"),
    "tile": ("column",),
    "chunk": ("block", "block", "visit", "visit"),
    "visit": ("tile", "use", "use", "slot"),
    "use": ("piece",),
}
"""What the numbers of each tensor of a layout count; the kernels take none of them on trust."""


@pytest.mark.parametrize("bad", [-2, 2**31 - 1])
@pytest.mark.parametrize(
    ("name", "number"), [(n, i) for n, of in FIELDS.items() for i in range(len(of))]
)
def test_a_hostile_layout_is_refused(name: str, number: int, bad: int) -> None:
    """In any place of any tensor, in the pass that reads it."""
    given = getattr(layout_of(LISTS, TilesLayout), name)
    for place in range(len(given)):
        changed = given.clone()
        changed.view(len(given), -1)[place, number] = bad
        with pytest.raises(library.NativeError, match="does not fit"):
            run_both_ways(*operator_arguments(**{name: changed}))


def test_a_class_that_the_table_does_not_have_is_refused() -> None:
    index = torch.arange(LISTS.num_edges) % 5
    for bad in (-1, 5, 2**31 - 1):
        changed = index.clone()
        changed[LISTS.num_edges // 2] = bad
        with pytest.raises(IndexError, match="TableBias"):
            tiles_attend.operator(*operator_arguments(index=changed))


@pytest.mark.slow
@OPCHECK
def test_places_whose_differences_have_no_class_are_refused() -> None:
    """Of any pair, an edge or not, as biases are read between the runs, too."""
    place, index = torch.arange(29, dtype=torch.int32), torch.arange(57) % 5
    fits = place - 28, place
    run_both_ways(*operator_arguments(index=index, places=fits))
    torch.library.opcheck(tiles_attend.operator, operator_arguments(index=index, places=fits))
    for side, (node, bad) in itertools.product(range(2), ((0, -100), (28, 100))):
        places = [x.clone() for x in fits]
        places[side][node] = bad
        with pytest.raises(library.NativeError, match="does not fit"):
            tiles_attend.operator(*operator_arguments(index=index, places=places))


def test_a_bias_by_offset_lists_no_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = (graphs.window(20) | graphs.hubs([0])).bind(3000)
    table = torch.randn(32, 2, requires_grad=True)
    buckets = Buckets(2)
    buckets.table = torch.nn.Parameter(table)
    x = torch.randn(3000, 2, 8)
    listed = ew.TableBias(buckets.bucket(offsets(graph)), table)
    expected = ew.attend(x, x, x, graph, bias=listed, engine="tiles")
    (of_table,) = torch.autograd.grad(expected.sin().sum(), table)
    fresh = (graphs.window(20) | graphs.hubs([0])).bind(3000)
    monkeypatch.setattr(type(fresh), "edge_index", None)
    out = ew.attend(x, x, x, fresh, bias=buckets(fresh)["bias"], engine="tiles")
    torch.testing.assert_close(out, expected)
    (found,) = torch.autograd.grad(out.sin().sum(), buckets.table)
    torch.testing.assert_close(found, of_table, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_bias_that_is_kept_from_window_to_window_is_that_of_each(threads: int) -> None:
    """Windows of the same places, of fewer, of others in part, and of places that are all one."""
    generator = torch.Generator().manual_seed(0)
    base = torch.randint(50, (130,), generator=generator)
    other = base.clone()
    other[20] = (base[20] + 7) % 50
    one = torch.full_like(base, 3)
    windows = [
        *((49, base, base), (49, base, base), (30, base, base), (49, base, base)),
        *((49, other, base), (49, base, other), (5, one, one), (49, one, one), (70, base, base)),
        *((130, base, base), (130, base, other), (130, base, base), (3, one, one), (8, one, one)),
    ]
    sizes = [size for size, *_ in windows]
    source, target = (torch.cat([given[side][: given[0]] for given in windows]) for side in (1, 2))
    graph = graphs.batch(graphs.complete(), sizes)
    classes = torch.randint(20, (99,), generator=generator)
    table = torch.randn(20, 3, dtype=torch.float64, requires_grad=True)
    bias = ew.OffsetBias(ew.Offsets(target - 49, source, classes, graph), table)
    listed = ew.TableBias(bias.index, table)
    inputs = torch.randn(3, 2, sum(sizes), 3, 6, dtype=torch.float64, requires_grad=True)
    outcomes = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    for engine, given in (("tiles", bias), ("reference", listed)):
        out = ew.attend(*inputs, graph, bias=given, engine=engine)
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), (inputs, table))])
    torch.set_num_threads(before)
    for ours, theirs in zip(*outcomes, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-11)


def test_a_reach_beyond_its_piece_or_edge_that_is_none_is_refused() -> None:
    given = layout_of(LISTS, TilesLayout).reach
    for place in (given[:, 0] < given[:, 1]).nonzero().flatten():
        for number, bad in ((0, -2), (1, 99), (2, -1), (2, LISTS.num_edges)):
            changed = given.clone()
            changed[place, number] = bad
            with pytest.raises(library.NativeError, match="does not fit"):
                tiles_attend.operator(*operator_arguments(reach=changed))


def test_a_tile_that_chunks_share_is_summed_from_slots_that_exist() -> None:
    graph = graphs.causal().bind(17 * TilesLayout.BLOCK)
    layout = layout_of(graph, TilesLayout)
    assert layout.slots > len(layout.merge) > 0
    x = torch.randn(1, graph.num_targets, 1, 4, requires_grad=True)
    for number, bad in itertools.product(range(3), (-2, 2**31 - 1)):
        merge = layout.merge.clone()
        merge[0, number] = bad
        tensors = [merge if n == "merge" else getattr(layout, n) for n in (*TENSORS, *GRADIENT)]
        with pytest.raises(library.NativeError, match="does not fit"):
            run_both_ways(x, x, x, *[None] * 4, tensors, 9, 0.3, 0.0, 7, 0, False)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_one_long_text_is_divided_between_threads(threads: int) -> None:
    """In both passes, and its gradients are the same bits whoever computes them."""
    pattern = graphs.window(40) | graphs.hubs([3]) | graphs.expand(graphs.random(1), 64)
    graph = pattern.bind(3000)
    assert len(layout_of(graph, TilesLayout).chunk) > 1
    torch.manual_seed(0)
    given = [torch.randn(3000, 1, 8, requires_grad=True) for _ in range(3)]
    before = torch.get_num_threads()
    outcomes = []
    for count in (1, threads):
        torch.set_num_threads(count)
        out = ew.attend(*given, graph, engine="tiles")
        outcomes.append([out, *torch.autograd.grad(out.sin().sum(), given)])
    torch.set_num_threads(before)
    assert all(a.equal(b) for a, b in zip(*outcomes, strict=True))


def test_a_long_text_takes_no_memory_for_its_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = graphs.window(64) | graphs.hubs([0]) | graphs.expand(graphs.random(3), 64)
    graph = pattern.bind(20_000)
    monkeypatch.setattr(type(graph), "edge_index", None)
    layout = layout_of(graph, TilesLayout)
    held = sum(x.numel() * x.element_size() for x in layout.tensors)
    assert held < 200 * graph.num_targets < graph.num_edges


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


def test_calls_of_the_same_sizes_with_other_scales() -> None:
    graph = graphs.causal().bind(70)
    query, key, value = nodes(graph, 16, 16)
    for score in (ew.Dot(0.3), ew.Dot(), ew.Dot(0.0), ew.Dot()):
        got, expected = (
            ew.attend(query, key, value, graph, score=score, engine=engine)
            for engine in ("tiles", "reference")
        )
        torch.testing.assert_close(got, expected)
