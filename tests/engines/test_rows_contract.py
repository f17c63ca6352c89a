"""What the rows engine promises beyond right numbers: determinism, types, memory, safety."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import edgewise as ew
from edgewise import graphs
from edgewise.engines.native import library
from edgewise.engines.rows.aggregate import REDUCES, rows_aggregate
from edgewise.engines.rows.attend import RowsAttend, rows_attend
from edgewise.engines.rows.layout import PIECE, RowsLayout, side_of
from edgewise.errors import ArgumentError
from edgewise.layouts import layout_of
from tests.engines.test_rows import CASES, loss_of, make_call, make_graph

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)

HUBS = {  # rows that are cut into pieces, on either side
    "one target reads all": lambda n: (torch.arange(n), torch.zeros(n, dtype=torch.long)),
    "one source is read by all": lambda n: (torch.zeros(n, dtype=torch.long), torch.arange(n)),
    "both": lambda n: (torch.arange(n) % 7 * (torch.arange(n) % 2), torch.arange(n) % 3),
}


def compare(graph, case, dtype=torch.float64, rtol=1e-7, atol=1e-7):
    leaves, run = make_call(case, graph, dtype)
    results = []
    for engine in ("reference", "rows"):
        out, lse = run(leaves, engine)
        grads = torch.autograd.grad(loss_of(out, lse), list(leaves.values()), allow_unused=True)
        results.append((out, lse, *grads))
    for what, expected, got in zip(("out", "lse", *leaves), *results, strict=True):
        if expected is None:
            assert got is None or not got.any(), what
            continue
        torch.testing.assert_close(
            got, expected, rtol=rtol, atol=atol, msg=lambda m, w=what: f"{w}: {m}"
        )


@pytest.mark.parametrize("name", HUBS)
@pytest.mark.parametrize(
    "case",
    [
        "eight heads",
        "gatv2",
        "bias",
        "table",
        "edge vectors",
        "projected",
        "dropout, batch",
        "no score",
    ],
)
@pytest.mark.parametrize("edges", [PIECE, PIECE + 1, 3 * PIECE + 5])
def test_long_rows_are_cut_and_merged(name, case, edges):
    source, target = HUBS[name](edges)
    graph = graphs.edges(
        torch.stack([source, target]), int(torch.stack([source, target]).max()) + 1
    )
    compare(graph, CASES[case])


def test_degree_of_one_hundred_thousand():
    index = torch.stack([torch.arange(100_000) % 1000, torch.zeros(100_000, dtype=torch.long)])
    compare(graphs.edges(index, (1000, 2)), CASES["eight heads"], rtol=1e-6)


@st.composite
def any_graph(draw):
    targets, sources = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    pair = st.tuples(st.integers(0, sources - 1), st.integers(0, targets - 1))
    pairs = draw(st.lists(pair, max_size=40))
    index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    return graphs.edges(index, (sources, targets))


@settings(max_examples=120, deadline=None)
@given(any_graph(), st.sampled_from(sorted(CASES)))
def test_any_graph_and_any_argument(graph, name):
    compare(graph, CASES[name], rtol=1e-6, atol=1e-6)


@settings(max_examples=60, deadline=None)
@given(any_graph(), st.integers(0, 2**62), st.lists(st.booleans(), min_size=40, max_size=40))
def test_masked_edges_change_nothing(graph, seed, masked):
    """Edges at -inf might as well not be there, even where a whole row is masked."""
    kept = ~torch.tensor(masked[: graph.num_edges], dtype=torch.bool)
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(n, 3, 8, generator=generator).requires_grad_()
        for n in (graph.num_targets, graph.num_sources, graph.num_sources)
    )
    bias = torch.zeros(graph.num_edges, 1).masked_fill(~kept[:, None], -torch.inf)
    small = graphs.edges(graph.edge_index[:, kept], (graph.num_sources, graph.num_targets))
    results = []
    for g, b in ((graph, bias), (small, None)):
        out = ew.attend(q, k, v, g, bias=b, engine="rows")
        results.append((out, *torch.autograd.grad(out.square().sum(), (q, k, v))))
    for masked_out, without in zip(*results, strict=True):
        torch.testing.assert_close(masked_out, without, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        "bias",
        "gatv2",
        "table gain",
        "edge vectors",
        "projected",
        "tanh, projected",
        "batch",
        "gelu",
        "gat",
    ],
)
def test_gradients_by_finite_differences(name):
    graph = make_graph(4, 5, 9)
    leaves, run = make_call(CASES[name], graph)
    names = list(leaves)

    def function(*values):
        out, lse = run(dict(zip(names, values, strict=True)), "rows")
        return out, torch.where(lse.isinf(), 0.0, lse)

    assert torch.autograd.gradcheck(function, list(leaves.values()), fast_mode=True)


def operator_arguments(name, dtype=torch.float32):
    """What the engine hands to the operator for a case."""
    graph = make_graph(6, 7, 20)
    leaves, run = make_call(CASES[name], graph, dtype)
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        called = RowsAttend.__call__
        patch.setattr(
            RowsAttend,
            "__call__",
            lambda self, given: (seen.append(given), called(self, given))[1],
        )
        run(leaves, "rows")
    arguments = [seen[0].get(name) for name in rows_attend.names]
    return tuple(
        x.detach().clone().requires_grad_()
        if isinstance(x, torch.Tensor) and x.is_floating_point()
        else getattr(x, "tensors", x)
        for x in arguments
    )


@pytest.mark.parametrize(
    "name", ["plain", "gatv2", "table", "projected", "edge vectors", "dropout, batch", "no score"]
)
def test_the_operator_is_well_formed(name):
    torch.library.opcheck(rows_attend.operator, operator_arguments(name))


@pytest.mark.parametrize("reduce", REDUCES.values())
def test_the_aggregation_operator_is_well_formed(reduce):
    layout = layout_of(make_graph(6, 7, 20), RowsLayout)
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


@pytest.mark.parametrize("name", COMPILED)
def test_compiles_without_a_break(name):
    graph = make_graph(12, 12, 60)
    leaves = tuple(torch.randn(12, 4, 8).requires_grad_() for _ in range(3))
    function = COMPILED[name]
    function(*leaves, graph)  # makes the layout, which depends on data
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(*leaves, graph).square().sum(), leaves)
    expected = torch.autograd.grad(function(*leaves, graph).square().sum(), leaves)
    for a, b in zip(expected, got, strict=True):
        torch.testing.assert_close(b, a)


@pytest.mark.parametrize(
    "name", ["eight heads", "gatv2", "table", "projected", "edge vectors", "dropout, batch"]
)
def test_any_number_of_threads_gives_the_same_bits(name):
    generator = torch.Generator().manual_seed(0)
    index = (torch.rand(2, 6000, generator=generator) ** 6 * 200).long()  # hubs on both sides
    graph = graphs.edges(index, 200)
    results = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 2, 1):
            torch.set_num_threads(threads)
            leaves, run = make_call(CASES[name], graph, torch.float32)
            out, lse = run(leaves, "rows")
            grad = torch.ones_like(out)
            results.append((out, lse, *torch.autograd.grad(out, list(leaves.values()), grad)))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "name",
    [
        "eight heads",
        "five heads",
        "wide",
        "gatv2",
        "gat",
        "bias",
        "edge vectors",
        "projected",
        "plain",
    ],
)
def test_low_precision_is_no_worse_than_rounding(name, dtype):
    """Error at most twice that of the reference in the same type, both against float64."""
    graph = make_graph(30, 30, 200)
    leaves, run = make_call(CASES[name], graph, dtype)
    results = {}
    for engine, kind in (("reference", torch.float64), ("reference", dtype), ("rows", dtype)):
        values = {n: x.detach().to(kind).requires_grad_() for n, x in leaves.items()}
        out, _ = run(values, engine)
        grads = torch.autograd.grad(out.double().sin().sum(), list(values.values()))
        results[engine, kind] = (out, *grads)
    epsilon = torch.finfo(dtype).eps
    exact, rounded, got = results.values()
    for truth, plain, ours in zip(exact, rounded, got, strict=True):
        allowed = 2 * (plain.double() - truth).abs().max() + 8 * epsilon * truth.abs().max()
        assert (ours.double() - truth).abs().max() <= allowed


def test_slices_of_a_fused_projection_need_no_copy_and_any_strides_work():
    graph = make_graph(20, 20, 100)
    fused = torch.randn(20, 3, 8, 16)
    odd = torch.randn(16, 8, 20)
    for q, k, v in (
        fused.unbind(1),
        (odd.permute(2, 1, 0),) * 3,
        (fused[:, 0].transpose(1, 2)[:, :, :4].transpose(1, 2),) * 3,
    ):
        expected = ew.attend(*(x.contiguous() for x in (q, k, v)), graph, engine="rows")
        assert torch.equal(ew.attend(q, k, v, graph, engine="rows"), expected)
    buffer = torch.randn(20 * 8 * 16 + 1)[1:].view(20, 8, 16)  # off any cache line
    expected = ew.attend(*(buffer.clone(),) * 3, graph, engine="rows")
    assert torch.equal(ew.attend(buffer, buffer, buffer, graph, engine="rows"), expected)


def test_large_scores_do_not_overflow_or_lose_the_sum():
    graph = make_graph(10, 10, 40)
    q, k, v = (torch.randn(10, 2, 8) for _ in range(3))
    out = ew.attend(1e4 * q, k, v, graph, engine="rows")
    expected = ew.attend(*(x.double() for x in (1e4 * q, k, v)), graph, engine="reference")
    torch.testing.assert_close(out.double(), expected, rtol=1e-3, atol=1e-3)


def test_second_derivatives_are_refused_and_not_wrong():
    graph = make_graph(5, 5, 20)
    x = torch.randn(5, 2, 8).requires_grad_()
    for out in (ew.attend(x, x, x, graph, engine="rows"), ew.aggregate(x, graph, engine="rows")):
        (grad,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="second derivatives"):
            grad.sum().backward()


def test_nan_is_not_hidden():
    graph = graphs.edges(torch.tensor([[0, 1, 2], [0, 0, 1]]), 3)
    value = torch.ones(3, 1, 8)
    query = torch.ones(3, 1, 8)
    query[0] = torch.nan
    out = ew.attend(query, torch.ones(3, 1, 8), value, graph, engine="rows")
    assert out[0].isnan().all()
    assert out[1:].isfinite().all()


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
    known = side_of(by_target, 3)
    assert side_of(by_target, 3) is known
    by_target[1][0] = 99
    with pytest.raises(ArgumentError, match="layout"):
        rows_aggregate.operator(value, None, by_target, by_source, 0)


def test_a_table_index_out_of_range_is_refused():
    graph = make_graph(5, 5, 20)
    index = torch.zeros(20, dtype=torch.long)
    bias = ew.TableBias(index, torch.randn(3, 2))
    index[7] = 1 << 40
    x = torch.randn(5, 2, 8)
    with pytest.raises(IndexError, match="TableBias"):
        ew.attend(x, x, x, graph, bias=bias, engine="rows")


def test_memory_does_not_grow_with_edges_times_width():
    """Ten times the edges: what is added is far below one E×H×D tensor."""
    program = textwrap.dedent(
        """
        import resource, sys, torch
        import edgewise as ew
        from edgewise import graphs
        edges = int(sys.argv[1])
        graph = graphs.edges(torch.randint(2000, (2, edges)), 2000)
        q, k, v = (torch.randn(2000, 8, 32).requires_grad_() for _ in range(3))
        ew.attend(q, k, v, graph, engine="rows").sum().backward()  # layouts, and memory for them
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ew.attend(q, k, v, graph, engine="rows").sum().backward()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        """
    )

    def peak(edges):
        command = [sys.executable, "-c", program, str(edges)]
        return (
            int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) * 1024
        )

    small, large = 40_000, 400_000
    one_tensor = (large - small) * 8 * 32 * 4
    assert peak(large) - peak(small) < one_tensor / 4


def test_the_library_needs_neither_pytorch_nor_python_nor_a_runtime_of_its_own():
    """One wheel for every version; PyTorch's OpenMP team is borrowed by address."""
    binary = Path(library.library()._name).read_bytes()
    assert b"libc.so" in binary  # the names of needed libraries are in there
    for name in (b"libtorch", b"libc10", b"libpython", b"libgomp", b"libomp", b"libstdc++"):
        assert name not in binary
