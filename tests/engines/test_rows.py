"""What the rows engine promises beyond right numbers: operators, memory, safety."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import checked_call
from edgewise.engines.layouts import layout_of
from edgewise.engines.native import library
from edgewise.engines.rows import _arguments as arguments_of
from edgewise.engines.rows.aggregate import REDUCES, rows_aggregate
from edgewise.engines.rows.attend import rows_attend
from edgewise.engines.rows.layout import RowsLayout, rows_side
from tests import memory
from tests.engines.cases import changed, edges

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)


def operator_arguments(name: str) -> tuple[Any, ...]:
    """What the engine hands to the operator for a call."""
    graph = edges(6, 7, 20)
    case = changed(name, dtype=torch.float32).over(graph)
    leaves = {name: leaf.tensor.requires_grad_() for name, leaf in case.leaves.items()}
    nodes = (leaves[name] for name in ("query", "key", "value"))
    call, bound = checked_call(*nodes, graph, **case.options(leaves))
    tensors, others = arguments_of(call, layout_of(bound, RowsLayout))
    given = {**tensors, **others}
    return tuple(
        x.detach().clone().requires_grad_()
        if isinstance(x, Tensor) and x.is_floating_point()
        else getattr(x, "tensors", x)
        for x in (given.get(name) for name in rows_attend.names)
    )


# opcheck of PyTorch 2.14 reads the gradients of tensors that are not leaves.
OPCHECK = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@pytest.mark.slow(after=1)
@OPCHECK
@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "gatv2",
        "bias from a table",
        "projected",
        "edge vectors",
        "dropout, batch",
        "no score",
    ],
)
def test_the_operator_is_well_formed(name):
    torch.library.opcheck(rows_attend.operator, operator_arguments(name))


@pytest.mark.slow(after=1)
@OPCHECK
@pytest.mark.parametrize("reduce", REDUCES.values())
def test_the_aggregation_operator_is_well_formed(reduce):
    layout = layout_of(edges(6, 7, 20), RowsLayout)
    sides = (layout.by_target.tensors, layout.by_source.tensors)
    value, weight = torch.randn(2, 7, 3, 4).requires_grad_(), torch.randn(1, 20, 3).requires_grad_()
    torch.library.opcheck(rows_aggregate.operator, (value, weight, *sides, reduce))


COMPILED = {
    "dot": lambda q, k, v, graph: ew.attend(q, k, v, graph, engine="rows"),
    "bias": lambda q, k, v, graph: ew.attend(
        q, k, v, graph, bias=q[:3, :, :1].sum() * torch.ones(graph.num_edges, 1), engine="rows"
    ),
    "gatv2": lambda q, k, v, graph: ew.attend(
        q, k, v, graph, score=ew.Additive(weight=v[0]), engine="rows"
    ),
    "aggregate": lambda q, k, v, graph: ew.aggregate(v.relu(), graph, engine="rows") + q + k,
}


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_a_break(name):
    graph = edges(12, 12, 60)
    leaves = tuple(torch.randn(12, 4, 8).requires_grad_() for _ in range(3))
    function = COMPILED[name]
    function(*leaves, graph)  # makes the layout, which depends on data
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(*leaves, graph).square().sum(), leaves)
    expected = torch.autograd.grad(function(*leaves, graph).square().sum(), leaves)
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b, a)


def hostile(**changes):
    layout = RowsLayout(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 2]), 3, 3)
    parts = dict(zip(("pointer", "column", "edge"), layout.by_target.tensors, strict=True))
    parts.update({name: torch.tensor(x, dtype=torch.int32) for name, x in changes.items()})
    return list(parts.values()), layout.by_source.tensors


@pytest.mark.parametrize(
    "changes",
    [
        {"pointer": [0, 3, 2, 3]},
        {"pointer": [1, 2, 2, 3]},
        {"pointer": [0, 2, 2, 4]},
        {"pointer": [0, -2, 2, 3]},
        {"column": [0, 1, 3]},
        {"column": [0, -1, 2]},
        {"column": [0, 1]},
        {"edge": [0, 1, 3]},
        {"edge": [-1, 1, 2]},
    ],
)
def test_a_hostile_layout_is_refused(changes):
    value = torch.randn(1, 3, 1, 8)
    with pytest.raises(ArgumentError, match="layout"):
        rows_aggregate.operator(value, None, *hostile(**changes), 0)


def test_a_layout_that_was_written_to_is_checked_again():
    by_target, by_source = hostile()
    value = torch.randn(1, 3, 1, 8)
    rows_aggregate.operator(value, None, by_target, by_source, 0)
    known = rows_side(by_target, 3)
    assert rows_side(by_target, 3) is known
    by_target[1][0] = 99
    with pytest.raises(ArgumentError, match="layout"):
        rows_aggregate.operator(value, None, by_target, by_source, 0)


def test_a_layout_of_inference_tensors_that_was_written_to_is_checked_again():
    with torch.inference_mode():
        by_target, by_source = ([x.clone() for x in side] for side in hostile())
        value = torch.randn(1, 3, 1, 8)
        rows_aggregate.operator(value, None, by_target, by_source, 0)
        by_target[1][0] = 99
        with pytest.raises(ArgumentError, match="layout"):
            rows_aggregate.operator(value, None, by_target, by_source, 0)


def test_a_table_index_out_of_range_is_refused():
    graph = edges(5, 5, 20)
    index = torch.zeros(20, dtype=torch.long)
    bias = ew.TableBias(index, torch.randn(3, 2))
    index[7] = 1 << 40
    x = torch.randn(5, 2, 8)
    with pytest.raises(IndexError, match="TableBias"):
        ew.attend(x, x, x, graph, bias=bias, engine="rows")


@memory.readable
def test_memory_does_not_grow_with_edges_times_width() -> None:
    """Ten times the edges: what is added is far below one E×H×D tensor."""
    q, k, v = (torch.randn(2000, 8, 32).requires_grad_() for _ in range(3))

    def call(edges: int) -> None:
        graph = graphs.edges(torch.randint(2000, (2, edges)), 2000)
        for _ in range(2):  # the first time with layouts
            ew.attend(q, k, v, graph, engine="rows").sum().backward()

    call(40_000)
    assert memory.growth(lambda: call(400_000)) < 360_000 * 8 * 32 * 4 / 4


def test_the_library_needs_neither_pytorch_nor_python_nor_a_runtime_of_its_own():
    """One wheel for every version; PyTorch's OpenMP team is borrowed by address."""
    binary = Path(library.library()._name).read_bytes()
    assert b"libc.so" in binary  # the names of needed libraries are in there
    for name in (b"libtorch", b"libc10", b"libpython", b"libgomp", b"libomp", b"libstdc++"):
        assert name not in binary


def test_every_kernel_that_operators_run_is_looked_for_when_the_library_loads():
    engines = Path(library.__file__).parents[1]
    code = "".join(path.read_text() for path in engines.rglob("*.py"))
    assert set(re.findall(r'run\("(ew_\w+)"\)', code)) == set(library.KERNELS)
