"""Runs of sources by FlexAttention, as on a GPU, on the CPU.

There PyTorch computes it in plain operations on all pairs. These look at the mask's function alone,
so the lists of blocks are read here as the kernels read them; and PyTorch's compiled kernel for the
CPU, which reads them and knows no gradients, is run once.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, _cur_sdpa_kernel_backends, sdpa_kernel
from torch.nn.attention import flex_attention as pytorch
from torch.nn.attention.flex_attention import BlockMask
from torch.utils._python_dispatch import TorchDispatchMode

import edgewise as ew
from edgewise import graphs
from edgewise.attention.attend import _problem, checked_call
from edgewise.engines import ENGINES, dense
from edgewise.engines.layouts import layout_of
from edgewise.engines.tiles import flex, varlen
from edgewise.engines.tiles.flex import FlexLayout
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.graphs import Graph
from tests.engines.cases import BATCHES, LISTS, RUNS, Call, Leads, changed
from tests.engines.checks import check_case
from tests.graphs import algebra
from tests.graphs.specification import BIPARTITE, PATTERNS, REPRESENTATIVES, Spec

GRAPHS = {name: graph for name, graph in (RUNS | LISTS).items() if graph.num_edges}


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``EDGEWISE_FLEX=1`` does, and PyTorch's refusal of gradients there taken away."""
    monkeypatch.setattr(flex, "DEVICES", {"cuda", "cpu"})
    monkeypatch.setattr(pytorch, "_validate_device", lambda *_: None)
    monkeypatch.setattr(pytorch, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)


@pytest.fixture(params=[4, 128])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Small blocks have as many borders in small graphs as large ones have in large graphs."""
    monkeypatch.setattr(flex, "BLOCK", request.param)
    size: int = request.param
    return size


def fresh(graph: Graph) -> Graph:
    """The same without the layouts that other tests have left on it."""
    graph = copy.copy(graph)
    graph._cache = {}
    if isinstance(graph, graphs.Permuted):
        graph.graph = fresh(graph.graph)
    return graph


def layout(graph: Graph) -> FlexLayout:
    found = layout_of(graph, TilesLayout)
    assert isinstance(found, FlexLayout)
    return found


def by_blocks(mask: BlockMask, *, down: bool) -> Tensor:
    """The pairs that a kernel reads, by the lists of either pass; each block once."""
    rows, columns = mask.seq_lengths
    size = mask.BLOCK_SIZE[0]
    found = torch.zeros(rows, columns, dtype=torch.bool)
    visited = set()
    sides = ("q", "full_q") if down else ("kv", "full_kv")
    # The kernels of PyTorch 2.11 read the second list with the strides of the first.
    strides = {getattr(mask, f"{side}_indices").stride() for side in sides}
    assert len(strides) == 1
    for side in sides:
        counts, listed = getattr(mask, f"{side}_num_blocks"), getattr(mask, f"{side}_indices")
        assert counts.dtype == listed.dtype == torch.int32
        assert counts.shape[-1] == -(-(columns if down else rows) // size)
        for own, count in enumerate(counts[0, 0].tolist()):
            for other in listed[0, 0, own, :count].tolist():
                place = (other, own) if down else (own, other)
                assert place not in visited
                visited.add(place)
                row = torch.arange(place[0] * size, min((place[0] + 1) * size, rows))
                column = torch.arange(place[1] * size, min((place[1] + 1) * size, columns))
                assert row.numel()
                assert column.numel()
                nothing = torch.zeros(())
                inside = mask.mask_mod(nothing, nothing, row[:, None], column)
                if side.startswith("full"):
                    assert inside.shape == (size, size)
                    assert inside.all()
                else:
                    assert inside.any()
                    assert not inside.all() or inside.numel() < size * size
                found[row[:, None], column] = inside
    return found


def check_mask(graph: Graph) -> None:
    made = layout(graph)
    rows = torch.arange(graph.num_targets) if made.row is None else made.row
    columns = torch.arange(graph.num_sources) if made.column is None else made.column
    expected = graph.dense()[rows][:, columns]
    for down in (False, True):
        assert torch.equal(by_blocks(made.mask, down=down), expected)
    if made.place is not None:
        assert torch.equal(rows[made.place], torch.arange(graph.num_targets))
    lists = made.mask.kv_num_blocks.sum() + made.mask.full_kv_num_blocks.sum()  # type: ignore[union-attr]
    assert made.spanned == int(lists) * flex.BLOCK**2
    if made.sequences is not None:
        assert torch.equal(by_sequences(made.sequences, graph), graph.dense())


def by_sequences(sequences: varlen.Sequences, graph: Graph) -> Tensor:
    """The pairs that packed sequences stand for, as PyTorch describes them."""
    found = torch.zeros(graph.num_targets, graph.num_sources, dtype=torch.bool)
    before, after = sequences.window
    members = [x.diff().tolist() for x in (sequences.targets, sequences.sources)]
    assert (max(members[0]), max(members[1])) == (sequences.most_targets, sequences.most_sources)
    first = [0, 0]
    for targets, sources in zip(*members, strict=True):
        ahead = torch.arange(sources) - torch.arange(targets)[:, None] - (sources - targets)
        near = (ahead >= -before if before >= 0 else True) & (
            ahead <= after if after >= 0 else True
        )
        part = found[first[0] : first[0] + targets, first[1] : first[1] + sources]
        part |= near
        first = [first[0] + targets, first[1] + sources]
    return found


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("name", GRAPHS)
def test_blocks_are_the_graph(name: str, block: int) -> None:
    if block == 128 or GRAPHS[name].num_targets < 200:
        check_mask(fresh(GRAPHS[name]))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_blocks_of_every_pattern(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "BLOCK", 4)
    for sizes in [(n, n) for n in (4, 5, 9, 16)] + BIPARTITE:
        if spec.matrix(*sizes) is not None:
            graph = spec.bind(*sizes)
            if not _refused(graph):
                check_mask(graph)


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("sign", algebra.BINARY)
@pytest.mark.parametrize("left", REPRESENTATIVES, ids=str)
def test_blocks_of_compositions(left: Spec, sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "BLOCK", 4)
    for right in REPRESENTATIVES:
        composed = algebra.compose(left, sign, right)
        if composed.matrix(9, 9) is not None:
            graph = fresh(composed.bind(9, 9))
            if not _refused(graph):
                check_mask(graph)


def _refused(graph: Graph) -> bool:
    x = torch.zeros(graph.num_targets, 1, 4), torch.zeros(graph.num_sources, 1, 4)
    choices = ew.explain_plan(x[0], x[1], x[1], graph).choices
    (mine,) = [choice for choice in choices if choice.engine == "tiles"]
    return bool(mine.reasons)


def test_most_patterns_are_runs() -> None:
    """Else the tests above would look at little."""
    refused = {spec.name for spec in PATTERNS if spec.matrix(9, 9) is not None} if PATTERNS else {}
    served = [s for s in PATTERNS if s.matrix(9, 9) is not None and not _refused(s.bind(9, 9))]
    assert len(served) > len(refused) / 3


class Largest(TorchDispatchMode):
    """The most numbers that any tensor has."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else [out]:
            if isinstance(x, Tensor):
                self.most = max(self.most, x.numel())
        return out


def test_no_matrix_of_pairs_is_made() -> None:
    n = 1 << 17
    window = graphs.window(256).bind(n)
    with Largest() as seen:
        made = FlexLayout.of(*_given(window))
    assert seen.most <= 2 * n
    numbers = [x for x in vars(made.mask).values() if isinstance(x, Tensor)]
    assert sum(x.numel() for x in numbers) <= n
    union = (graphs.window(256) | graphs.hubs([0])).bind(n)
    with Largest() as seen:
        FlexLayout.of(*_given(union))
    # One block of targets reads all others, and as long as its list are those of the rest.
    assert seen.most <= max(16 * n, (n // 128) ** 2)


def _given(graph: Graph) -> tuple[Any, ...]:
    """What the layout is made of; a mode does not see what is cached."""
    from edgewise.engines import layouts

    sizes = torch.tensor([graph.num_targets]), torch.tensor([graph.num_sources])
    return layouts._tile_runs(graph, *sizes), graph.num_targets, graph.num_sources, None


@pytest.mark.slow(every=8)
@pytest.mark.parametrize("name", [name for name in GRAPHS if GRAPHS[name].num_targets < 400])
def test_numbers_and_gradients(name: str) -> None:
    for lse in (False, True):
        hold(changed("plain", heads=1 + lse), GRAPHS[name], lse=lse)


def hold(call: Call, graph: Graph, *, lse: bool = False) -> None:
    graph = fresh(graph)
    report = check_case(call.over(graph, lse=lse), ["tiles"])
    assert not report.failures, "\n".join(report.failures)
    assert report.ran == ["tiles"]
    assert isinstance(layout_of(graph, TilesLayout), FlexLayout)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("batch", BATCHES[:-1], ids=str)
def test_leading_dimensions(batch: Leads) -> None:
    for name in ("packed lists", "dilated"):
        hold(changed("plain", heads=2, batch=batch), LISTS[name], lse=True)


@pytest.mark.parametrize("call", ["width 7", "negative scale", "scaled", "two key heads"])
def test_other_calls_in_single_precision(call: str) -> None:
    hold(changed(call, dtype=torch.float32), LISTS["all kinds"], lse=True)


def test_a_gradient_of_the_log_sum_exp_alone() -> None:
    query, key, value = (torch.randn(9, 1, 4, dtype=torch.float64) for _ in range(3))
    query.requires_grad_()
    found: list[Tensor] = []
    for engine in ("tiles", "reference"):
        graph = (graphs.window(1) | graphs.hubs([0])).bind(9)
        _, lse = ew.attend_with_lse(query, key, value, fresh(graph), engine=engine)
        found += torch.autograd.grad(lse.square().sum(), query)
    torch.testing.assert_close(*found)


def on_gpu(dtype: torch.dtype = torch.bfloat16, width: int = 64, **options: Any) -> list[str]:
    """The reasons against a call on a GPU."""
    x = torch.zeros(300, 2, width, dtype=dtype)
    graph = graphs.window(3).bind(300)
    call, graph = checked_call(x, x, x, graph, **options)
    problem = _problem(call, graph)._replace(device=torch.device("cuda"))
    return ENGINES["tiles"].refuses(problem)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dropout": 0.5}, "does not support dropout"),
        ({"bias": torch.zeros(2088, 1)}, "not deterministic"),
        ({"gain": torch.zeros(2088, 1)}, "neither gain nor edge vectors"),
        ({"score": None}, "only the score Dot"),
        ({"normaliser": "sparsemax"}, "only the normaliser softmax"),
        ({"width": 8}, "at least 16 wide"),
        ({"dtype": torch.float64}, "does not support float64"),
    ],
    ids=str,
)
def test_what_it_refuses(options: dict[str, Any], reason: str) -> None:
    pytest.importorskip("triton")
    assert not on_gpu()
    assert [reason in text for text in on_gpu(**options)].count(True) == 1


def test_without_triton_a_gpu_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "MISSING", "Triton is missing")
    assert on_gpu() == ["Triton is missing"]


def test_an_empty_graph_is_refused() -> None:
    x = torch.zeros(3, 1, 4)
    choices = ew.explain_plan(x, x, x, graphs.empty()).choices
    assert any(c.engine == "tiles" and c.reasons for c in choices)
    assert not ew.attend(x, x, x, graphs.empty()).any()


def plain_varlen(  # noqa: PLR0917 - as PyTorch has it
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    scale: float,
    window_size: tuple[int, int],
) -> Tensor:
    """What PyTorch's documentation says of ``varlen_attn``, which has no kernel for a CPU."""
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    sequences = varlen.Sequences(cu_seq_q, cu_seq_k, max_q, max_k, window_size)
    like = graphs.edges(torch.zeros(2, 0, dtype=torch.long), (key.shape[0], query.shape[0]))
    mask = by_sequences(sequences, like)
    scores = torch.einsum("ihd,jhd->hij", query, key) * scale
    scores = scores.masked_fill(~mask, -torch.inf)
    weights = scores.softmax(-1).masked_fill(~mask, 0.0)
    return torch.einsum("hij,jhd->ihd", weights, value)


SEQUENCES = {
    "complete": graphs.complete().bind(5),
    "cross": graphs.complete().bind(7, 5),
    "causal": graphs.causal().bind(9),
    "window": graphs.window(3).bind(20),
    "past": (graphs.causal() & graphs.window(4)).bind(20),
    "packed": graphs.batch(graphs.complete(), [3, 7, 1]),
    "packed causal": graphs.batch(graphs.causal(), [6, 2, 9]),
    "packed windows": graphs.batch(graphs.window(2), [9, 1, 3]),
    "packed pairs": graphs.batch(graphs.complete(), [5, 6, 2], [7, 3, 4]),
}


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("batch", [((), (), ()), ((2, 3), (2, 3), (3,))], ids=str)
@pytest.mark.parametrize("name", SEQUENCES)
def test_packed_sequences(name: str, batch: Leads, monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("torch.nn.attention.varlen")
    ran = []
    monkeypatch.setattr(
        module, "varlen_attn", lambda *x, **options: ran.append(1) or plain_varlen(*x, **options)
    )
    monkeypatch.setattr(varlen, "_fits", lambda *_: True)
    call = changed("plain", width=6, value_width=6, batch=batch)
    hold(call, SEQUENCES[name])
    hold(replace(call, heads=4, key_heads=2), SEQUENCES[name])
    assert ran == [1, 1]
    ran.clear()
    hold(call, SEQUENCES[name], lse=True)  # whose gradient it does not have
    assert not ran


@pytest.mark.parametrize(
    "name", ["backwards", "any runs", "blocks", "decoding three", "empty runs"]
)
def test_other_runs_are_no_sequences(name: str) -> None:
    graph = RUNS[name]
    if name == "blocks":  # without their sizes
        graph = graphs.Intervals(graph.start, graph.stop, graph.num_sources)  # type: ignore[attr-defined]
    ends = graph.start, graph.stop  # type: ignore[attr-defined]
    sizes = torch.tensor([graph.num_targets]), torch.tensor([graph.num_sources])
    assert varlen.sequences_of(*ends, *sizes) is None


def test_cudnn_comes_first_from_hopper_on(monkeypatch: pytest.MonkeyPatch) -> None:
    query = torch.zeros(4, 1, 16)

    def first(capability: tuple[int, int]) -> SDPBackend:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        with dense._best_kernels(query):
            enabled: list[SDPBackend] = _cur_sdpa_kernel_backends(with_priority=True)
            return enabled[0]

    before = _cur_sdpa_kernel_backends(with_priority=True)
    assert first((9, 0)) == SDPBackend.CUDNN_ATTENTION
    assert first((8, 0)) == before[0] != SDPBackend.CUDNN_ATTENTION
    with sdpa_kernel(SDPBackend.MATH):  # that was somebody's wish
        assert first((9, 0)) == SDPBackend.MATH
    assert _cur_sdpa_kernel_backends(with_priority=True) == before


def problem_on(device: str, graph: Graph, dtype: torch.dtype, *, lse: bool = False) -> Any:
    x = torch.zeros(graph.num_targets, 8, 64, dtype=dtype)
    call, graph = checked_call(x, x, x, graph)
    return _problem(call, graph, lse=lse)._replace(device=torch.device(device))


def test_the_planner_knows_what_runs_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch.nn.attention.varlen", reason="PyTorch 2.9 has no varlen_attn")
    monkeypatch.setattr(varlen, "_recent", lambda _: True)
    window = graphs.window(64).bind(300)
    form, amounts = ENGINES["tiles"].work(problem_on("cuda", window, torch.bfloat16))
    assert form == "varlen"
    assert amounts["pair"] == 8 * window.num_edges
    for dtype, lse in ((torch.float32, False), (torch.bfloat16, True)):
        form, amounts = ENGINES["tiles"].work(problem_on("cuda", window, dtype, lse=lse))
        assert form == "flex"
        assert amounts["pair"] == 8 * 7 * 128 * 128


@pytest.mark.skipif(not os.environ.get("EDGEWISE_FLEX"), reason="minutes; see make gpu-check")
def test_the_compiled_kernel_reads_the_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", False)
    monkeypatch.setattr(flex, "_flex", flex._compiled)
    x = torch.randn(2, 400, 2, 16)
    with torch.no_grad():
        for graph in (graphs.window(20, 2) | graphs.hubs([7]), graphs.causal()):
            out = ew.attend(x, x, x, graph, engine="tiles")
            expected = ew.attend(x, x, x, graph, engine="reference")
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["packed causal", "all kinds"])
def test_it_can_be_traced(name: str) -> None:
    torch._dynamo.reset()
    graph = fresh(GRAPHS[name])
    x = torch.randn(graph.num_targets, 2, 4, dtype=torch.float64, requires_grad=True)

    def attend(engine: str) -> Tensor:
        return ew.attend(x, x, x, graph, engine=engine).square().sum()

    traced = torch.compile(lambda: attend("tiles"), backend="aot_eager", fullgraph=True)
    found, expected = (
        torch.autograd.grad(run(), x)[0] for run in (traced, partial(attend, "reference"))
    )
    torch.testing.assert_close(found, expected)
    torch._dynamo.reset()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """One for each time that the compiler was asked."""
    seen: list[int] = []

    def backend(module: Any, _given: Any) -> Any:
        seen.append(1)
        return module.forward

    torch._dynamo.reset()
    compiled = torch.compile(flex._attention, backend=backend, fullgraph=True)
    monkeypatch.setattr(flex, "_flex", lambda: compiled)
    yield seen
    torch._dynamo.reset()


@pytest.mark.slow
def test_new_sizes_compile_nothing(compilations: list[int]) -> None:
    """Once each size has changed; a graph that needs a longer bisection is another kind."""
    counts = []
    for n in (300, 500, 700, 444, 1000):
        x = torch.randn(n, 2, 16)
        for graph in (graphs.window(20), graphs.batch(graphs.causal(), [100, n - 100])):
            ew.attend(x, x, x, graph, engine="tiles")
        counts.append(len(compilations))
    assert counts[2] == counts[-1] <= 4
