"""The kernels of a GPU, in Triton's interpreter, give what the formula gives.

The cases, the oracle and the bounds are those of ``tests/engines``. The graphs are small, and
have rows of every kind on both sides: empty, short, long, and so long that they are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import edgewise as ew
from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import _split, _with_lse, checked_call
from edgewise.engines import ENGINES, triton_rows
from edgewise.engines.layouts import layout_of
from edgewise.engines.merge import merge_attention
from edgewise.engines.plan import Choice
from edgewise.engines.rows.layout import RowsLayout
from edgewise.engines.triton_rows.launch import recorded
from edgewise.engines.triton_rows.layout import TritonLayout, TritonSide, sort_edges
from edgewise.graphs import Graph
from tests.engines.case import Case
from tests.engines.cases import (
    BATCHES,
    CALLS,
    EDGES,
    GRAPHS,
    MEMORY,
    TYPES,
    WANTED,
    Aggregation,
    Call,
    Leads,
    changed,
    softmax,
)
from tests.engines.checks import check_case
from tests.graphs.specification import PATTERNS, Spec
from tests.triton import DEVICE, ON_A_GPU


def degrees(*counts: int, sources: int) -> Graph:
    """Targets that read so many sources each, some of them twice, in no order; the first most."""
    target = torch.repeat_interleave(torch.tensor(counts))
    generator = torch.Generator().manual_seed(len(target))
    source = (torch.rand(len(target), generator=generator) ** 3 * (sources - 1)).long()
    order = torch.randperm(len(target), generator=generator)
    return graphs.edges(torch.stack([source, target])[:, order], (sources, len(counts)))


MIXED = degrees(2, 0, 37, 5, 1, 0, 3, 16, sources=9)
"""Of its targets one is cut in three pieces; of its sources the first is."""
FEW = degrees(1, 4, 0, 2, sources=3)
MIXED_SQUARE = degrees(*[3, 1, 0] * 4, sources=12)
MOST = 300
"""Edges of a graph that an interpreter gets through in a second or two."""
PIECE = 16
"""As conftest.py sets it."""


def hold(case: Case) -> None:
    """What the formula gives, by the kernels in Triton."""
    case = case.on(DEVICE)
    assert isinstance(layout_of(case.over.graph.to(DEVICE), RowsLayout), TritonLayout)
    report = check_case(case, ["rows"])
    assert not report.failures, "\n".join([str(case), *report.failures])
    assert report.ran, "nothing ran"


def test_the_graphs_have_rows_of_every_kind() -> None:
    layout = layout_of(MIXED.to(DEVICE), RowsLayout)
    for side in (layout.by_target, layout.by_source):
        assert isinstance(side, TritonSide)
        assert len(side.short)
        assert len(side.long) > side.slots >= 2
        assert len(side.merges)


SERVED = [name for name in CALLS if name not in ("own", "values of no width")]
WIDE = ("wide", "twenty heads")


@pytest.mark.parametrize("call", SERVED)
def test_every_call(call: str) -> None:
    hold(CALLS[call].over(FEW if call in WIDE else MIXED, lse=True))


@pytest.mark.parametrize("call", ["plain", "dropout"])
def test_without_the_log_sum_exp(call: str) -> None:
    hold(CALLS[call].over(MIXED))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("call", [name for name in SERVED if name not in WIDE])
def test_every_call_in_lower_precision(call: str, dtype: torch.dtype) -> None:
    hold(changed(call, dtype=dtype).over(FEW, lse=True))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("call", ["plain", "everything"])
def test_pieces_in_lower_precision(call: str, dtype: torch.dtype) -> None:
    hold(changed(call, dtype=dtype).over(MIXED, lse=True))


@pytest.mark.parametrize("name", ["copies of one edge", "no edges", "isolated", "packed, nobody"])
def test_graphs_of_other_forms(name: str) -> None:
    hold(changed("gain, masked", heads=2).over(EDGES[name], lse=True))


@pytest.mark.parametrize("name", [name for name in GRAPHS if GRAPHS[name].num_edges <= MOST])
def test_every_small_graph(name: str) -> None:
    hold(changed("plain", heads=1).over(GRAPHS[name]))
    hold(Aggregation(ties=True).over(GRAPHS[name], "max"))


@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_every_pattern(spec: Spec) -> None:
    for sizes in ((5, 5), (3, 5), (6, 6)):
        if spec.matrix(*sizes) is not None:
            hold(changed("plain", heads=1).over(spec.bind(*sizes)))


@pytest.mark.parametrize(("width", "value_width"), [(1, 1), (3, 5), (16, 16), (32, 64), (64, 7)])
def test_widths_around_a_vector(width: int, value_width: int) -> None:
    hold(Call(heads=1, width=width, value_width=value_width).over(FEW))


@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("call", ["masked", "bias from a table"])
def test_leading_dimensions(call: str, batch: Leads) -> None:
    hold(changed(call, heads=2, batch=batch).over(FEW, lse=True))


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("call", ["plain", "projected", "gain and bias from tables"])
def test_inputs_may_have_any_strides(call: str, memory: str) -> None:
    hold(changed(call, memory=memory, batch=((2,), (2,), (2,))).over(FEW))


@pytest.mark.parametrize("wanted", WANTED, ids=" ".join)
@pytest.mark.parametrize("call", ["plain", "gatv2", "projected"])
def test_only_the_gradients_that_are_needed(call: str, wanted: tuple[str, ...]) -> None:
    hold(changed(call, heads=2, width=5, value_width=3, wanted=wanted).over(MIXED))


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("leaf", ["query", "key", "value"])
def test_what_is_not_finite_stays_with_its_readers(leaf: str, bad: float) -> None:
    hold(replace(Call(dtype=torch.float32).over(MIXED), poison=(leaf, bad, (5, 1, 2))))


@pytest.mark.parametrize("call", [name for name in SERVED if name not in WIDE])
def test_scores_and_weights_of_edges(call: str) -> None:
    if "dropout" not in call:
        hold(CALLS[call].over(MIXED if CALLS[call].batch == ((), (), ()) else FEW, "weights"))


@pytest.mark.parametrize("heads", [1, 3, 20])
def test_softmax_over_edges(heads: int) -> None:
    hold(softmax(MIXED, heads, (2,) if heads == 3 else ()))


@pytest.mark.parametrize("weight", ["", "one", "head", "batch"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_every_aggregation(reduce: str, weight: str) -> None:
    hold(Aggregation(weight, 2, 3, (2,)).over(MIXED, reduce))
    hold(Aggregation(weight, 1, 300).over(FEW, reduce))  # so wide that heads are divided


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
def test_aggregation_of_ties_in_lower_precision(reduce: str, dtype: torch.dtype) -> None:
    hold(Aggregation("", ties=True, dtype=dtype).over(MIXED, reduce))
    hold(Aggregation("head", dtype=dtype).over(MIXED, reduce))


def test_an_extreme_of_nan_is_nan() -> None:
    value = torch.randn(9, 1, 3, device=DEVICE)
    value[8, 0, 1] = torch.nan
    graph = graphs.edges(torch.stack([torch.arange(9).repeat(4), torch.zeros(36).long()]), (9, 2))
    for reduce in ("max", "min"):
        out = ew.aggregate(value, graph, reduce=reduce, engine="rows")  # type: ignore[arg-type]
        assert out[0, 0].isnan().tolist() == [False, True, False]
        assert not out[1].any()


def test_a_piece_that_may_read_nothing() -> None:
    """Its greatest score is none: far scores of other pieces would vanish beside a 0."""
    many = 3 * PIECE
    graph = graphs.edges(torch.stack([torch.arange(many), torch.zeros(many).long()]), (many, 1))
    bias = torch.full((many, 1), -200.0, device=DEVICE)
    bias[PIECE : 2 * PIECE] = -torch.inf
    nodes = [torch.randn(n, 1, 4, device=DEVICE) for n in (1, many, many)]
    with np.errstate(over="ignore"):  # in a number that is not taken
        got, expected = (
            ew.attend(*nodes, graph, score=None, bias=bias, engine=engine)
            for engine in ("rows", "reference")
        )
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call", ["plain", "projected values"])
def test_every_piece_may_have_a_greater_score_than_those_before(call: str) -> None:
    """What they summed then shrinks: of values, and of features of edges."""
    case = changed(call, bias="head").over(MIXED, lse=True)
    case.leaves["bias"].tensor.add_(torch.arange(MIXED.num_edges)[:, None] / 4)
    hold(case)


def test_parts_of_a_union_drop_what_the_whole_drops() -> None:
    """A part counts its edges from where it begins in the whole."""
    union = graphs.window(1).bind(12) | MIXED_SQUARE
    nodes = [torch.randn(12, 2, 4, device=DEVICE) for _ in range(3)]
    call, graph = checked_call(*nodes, union, dropout=0.5)
    layout = layout_of(graph, RowsLayout)
    whole = ENGINES["rows"].attend(call, layout)
    parts = list(_split(call, graph))
    assert len(parts) > 1
    merged, _ = merge_attention(
        [_with_lse(piece, part, Choice("rows", 0.0)) for piece, part in parts]
    )
    torch.testing.assert_close(merged, whole, rtol=1e-5, atol=1e-6)


def run_twice(function: Callable[[], tuple[Tensor, ...]]) -> None:
    for a, b in zip(function(), function(), strict=True):
        assert torch.equal(a, b)


def test_runs_repeat_bit_for_bit() -> None:
    case = changed("everything", dtype=torch.float32).over(MIXED).on(DEVICE)
    leaves = {name: leaf.tensor.requires_grad_() for name, leaf in case.leaves.items()}
    nodes = [leaves[name] for name in ("query", "key", "value")]

    def function() -> tuple[Tensor, ...]:
        out = ew.attend(*nodes, MIXED, **case.options(leaves), engine="rows")
        return torch.autograd.grad(out.square().sum(), list(leaves.values()))

    run_twice(function)


@pytest.mark.skipif(ON_A_GPU, reason="a GPU adds up a tile in an order of its own")
def test_the_order_of_pieces_is_that_of_their_places() -> None:
    """Pieces are merged from the first to the last: a sum in another order has other bits."""
    many = 6 * PIECE
    graph = graphs.edges(torch.stack([torch.arange(many), torch.zeros(many).long()]), (many, 1))
    value = torch.randn(many, 1, 1) * 10 ** torch.linspace(-4, 4, many)[:, None, None]
    got = ew.aggregate(value, graph, engine="rows")
    total = torch.zeros(())
    for piece in value.view(6, PIECE):
        total = total + piece_sum(piece)
    assert got.item() == total.item()


def piece_sum(piece: Tensor) -> Tensor:
    """As a program sums it: in tiles of 16 (there is one), by NumPy's pairwise sum."""
    return torch.from_numpy(piece.numpy().sum(keepdims=True))[0]


WAITS = ("item", "tolist", "nonzero", "cpu", "numpy", "__bool__", "__int__", "__float__")
"""Methods of tensors for which a GPU's host waits."""


class Unread(TorchDispatchMode):
    """No operation whose result the host reads, or whose size depends on numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in ("_local_scalar_dense", "nonzero", "masked_select", "_unique2"), name
        return func(*args, **(kwargs or {}))


def a_step(case: Case) -> Callable[[], object]:
    """Forward and backward; what would be launched is listed, as interpreting it reads numbers."""
    case = case.on(DEVICE)
    leaves = {name: leaf.tensor.requires_grad_() for name, leaf in case.leaves.items()}
    nodes = [leaves[name] for name in ("query", "key", "value")]
    options = case.options(leaves)

    def step() -> object:
        with recorded() as launches:
            out = ew.attend(*nodes, case.over.given, engine="rows", **options)
            torch.autograd.grad(out, list(leaves.values()), torch.ones_like(out), allow_unused=True)
        return launches

    return step


@pytest.mark.parametrize("call", [name for name in SERVED if not CALLS[name].dropout])
def test_a_warm_step_does_not_wait_for_the_device(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for dropout, whose seed is drawn on the host."""
    step = a_step(CALLS[call].over(MIXED))
    step()

    def refuse(*_: Any) -> None:
        raise AssertionError("the host waits")

    for name in WAITS:
        monkeypatch.setattr(Tensor, name, refuse)
    assert step()


@pytest.mark.parametrize("call", ["plain", "everything", "tanh, projected, gain"])
def test_nor_do_its_operators(call: str) -> None:
    step = a_step(CALLS[call].over(MIXED))
    step()
    with Unread():
        assert step()


def test_sides_are_sorted_and_divided() -> None:
    source, target = MIXED.edge_index
    pointer, column, edge = sort_edges(target, source, MIXED.num_targets)
    assert pointer.tolist() == [0, *torch.bincount(target, minlength=8).cumsum(0).tolist()]
    assert torch.equal(source[edge.long()].int(), column)
    side = TritonSide([pointer, column, edge], MIXED.num_sources)
    items = torch.cat([side.long, side.short])
    found = sorted((row, first, last) for row, first, last, _ in items.tolist())
    assert [slot for _, _, _, slot in items.tolist() if slot >= 0] == list(range(side.slots))
    covered = [place for _, first, last in found for place in range(first, last)]
    assert covered == list(range(MIXED.num_edges))
    assert {row for row, _, _ in found} == set(range(MIXED.num_targets))
    length = [last - first for _, first, last, _ in side.short.tolist()]
    assert length == sorted(length, reverse=True)
    assert torch.equal(side.row, target[edge.long()].int())


@pytest.mark.parametrize(
    "changes",
    [
        {0: [0, 3, 2, 3]},
        {0: [1, 2, 2, 3]},
        {0: [0, 2, 2, 4]},
        {0: [0, -2, 2, 3]},
        {1: [0, 1, 3]},
        {1: [0, -1, 2]},
        {1: [0, 1]},
        {2: [0, 1, 3]},
        {2: [-1, 1, 2]},
    ],
)
def test_a_hostile_layout_is_refused(changes: dict[int, list[int]]) -> None:
    parts = [[0, 2, 2, 3], [0, 1, 2], [0, 1, 2]]
    TritonSide([torch.tensor(x, dtype=torch.int32) for x in parts], 3)
    for place, numbers in changes.items():
        parts[place] = numbers
    with pytest.raises(ArgumentError, match="layout"):
        TritonSide([torch.tensor(x, dtype=torch.int32) for x in parts], 3)


def test_a_table_index_out_of_range_is_refused() -> None:
    index = torch.zeros(MIXED.num_edges, dtype=torch.long, device=DEVICE)
    bias = ew.TableBias(index, torch.randn(3, 2, device=DEVICE))
    x, y = (torch.randn(n, 2, 4, device=DEVICE) for n in (8, 9))
    ew.attend(x, y, y, MIXED, bias=bias, engine="rows")
    index[7] = 1 << 40
    with pytest.raises(IndexError, match="TableBias"):
        ew.attend(x, y, y, MIXED, bias=bias, engine="rows")


def test_what_is_too_wide_is_refused() -> None:
    x = torch.randn(4, 1, 2000, device=DEVICE)
    with pytest.raises(ArgumentError, match="1024 wide"):
        ew.attend(x, x[:3], x[:3], FEW, engine="rows")


@pytest.mark.skipif(ON_A_GPU, reason="without the switch")
def test_the_switch_is_for_this_process_alone() -> None:
    assert triton_rows.serves(torch.device("cpu"))
    assert not triton_rows.serves(torch.device("meta"))
