"""What keeps small calls quick: few steps, and what is remembered of calls that are alike."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import sys
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.attention.attend import cached_choice
from edgewise.engines.layouts import layout_of
from edgewise.engines.native import library, operator
from edgewise.engines.native.operator import MOST_SIZES
from edgewise.engines.rows.layout import RowsLayout
from edgewise.engines.rows.softmax import rows_softmax
from edgewise.engines.tiles.layout import TilesLayout

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)

T = TypeVar("T")
N = 20


def graph_for(engine: str) -> graphs.Graph:
    """A graph of its own at each call."""
    if engine == "tiles":
        return graphs.batch(graphs.causal(), [N])
    return graphs.edges(torch.randint(N, (2, 60)), N)


def nodes(*batch: int, width: int = 8, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(*batch, N, 2, width, dtype=dtype).requires_grad_() for _ in range(3)]


def entered(run: Callable[[], T]) -> tuple[T, list[str]]:
    """What a call gives, and the file of every function of the package that it enters."""
    root, files = str(Path(ew.__file__).parent), []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            files.append(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        result = run()
    finally:
        sys.setprofile(None)
    return result, files


@pytest.mark.parametrize("engine", ["rows", "tiles"])
def test_a_call_takes_few_steps(engine: str) -> None:
    leaves = nodes()
    ew.attend(*leaves, graph_for(engine), engine=engine)  # what is loaded once a process
    graph = graph_for(engine)
    gradient = torch.ones(N, 2, 8)

    def passes() -> tuple[list[str], list[str]]:
        out, forward = entered(lambda: ew.attend(*leaves, graph, engine=engine))
        _, backward = entered(lambda: torch.autograd.grad(out, leaves, gradient))
        return forward, backward

    for most, files in ((86, 15), (42, 13)):  # cold, then warm
        forward, backward = passes()
        assert len(forward) <= most
        assert len(set(forward)) <= files
        assert len(backward) <= 40
        assert len(set(backward)) <= 4


@pytest.mark.parametrize("engine", ["rows", "tiles"])
def test_calls_of_several_kinds_take_turns_on_one_graph(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    graph = graph_for(engine)
    kinds: list[dict[str, Any]] = [
        {"width": 8},
        {"width": 5},
        {"width": 8, "dtype": torch.float64},
        {"batch": (3,)},
        {"batch": (1,)},
        {"batch": (2, 2), "width": 4},
    ]
    for threads in (1, 2, 1):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        for kind in kinds:
            leaves = nodes(
                *kind.get("batch", ()),
                width=kind.get("width", 8),
                dtype=kind.get("dtype", torch.float32),
            )
            found = []
            for name in (engine, "reference"):
                out = ew.attend(*leaves, graph, engine=name)
                found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
            for mine, other in zip(*found, strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


def test_what_is_remembered_of_calls_has_an_end() -> None:
    graph = graph_for("rows")
    for width in range(1, 2 * MOST_SIZES):
        ew.attend(*nodes(width=width), graph, engine="rows")
    assert 0 < len(layout_of(graph, RowsLayout).by_target.call_fields) <= MOST_SIZES
    assert 0 < cached_choice.cache_info().currsize <= cached_choice.cache_info().maxsize


@pytest.mark.parametrize("engine", ["rows", "tiles"])
def test_a_named_engine_refuses_what_it_cannot_see_into(engine: str) -> None:
    graph = graph_for(engine)
    query, key, value = (x.detach() for x in nodes())

    def loss(query: Tensor) -> Tensor:
        return ew.attend(query, key, value, graph, engine=engine).sum()

    for _ in range(2):
        loss(query)
        with pytest.raises(ew.ArgumentError, match=r"torch\.func"):
            torch.func.grad(loss)(query)


class Constant(torch.autograd.Function):
    """What comes after it has no gradient."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_ctx: Any, *_grads: Tensor) -> None:
        return None


@pytest.mark.parametrize("watched", [False, True])
def test_without_a_gradient_of_the_results_the_arguments_have_none(
    watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if watched:
        monkeypatch.setattr(operator, "is_tracing", lambda *_: True)
    layout = layout_of(graph_for("rows"), RowsLayout)
    scores = torch.randn(1, 60, 2, requires_grad=True)
    by_target = layout.by_target.tensors if watched else layout.by_target
    weights = rows_softmax({"scores": scores}, {"by_target": by_target, "columns": N})["weights"]
    Constant.apply(weights).sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is None


@pytest.mark.parametrize("engine", ["rows", "tiles"])
def test_a_graph_that_was_sent_to_a_process_can_still_be_used(engine: str) -> None:
    graph = graph_for(engine)
    if engine == "tiles":  # of the type that the kernels read
        last = torch.arange(1, N + 1, dtype=torch.int32)
        graph = graphs.Intervals(torch.zeros_like(last), last, N)
    leaves = nodes()
    ew.attend(*leaves, graph, engine=engine).sum().backward()
    rows = layout_of(graph, RowsLayout) if engine == "rows" else None
    sides = [rows.by_target, rows.by_source] if rows else [layout_of(graph, TilesLayout)]
    tensors = [x for side in sides for x in side.tensors]  # type: ignore[union-attr]
    addresses = [x.data_ptr() for x in tensors]
    ForkingPickler.dumps(graph)  # type: ignore[no-untyped-call]
    # What is remembered has these addresses.
    assert [x.data_ptr() for x in tensors] == addresses


@pytest.mark.slow(after=1)
@pytest.mark.parametrize("engine", ["rows", "tiles"])
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copied", "pickled"]
)
def test_a_copy_of_a_graph_in_use_has_memory_of_its_own(
    engine: str, copied: Callable[[graphs.Graph], graphs.Graph]
) -> None:
    graph = graph_for(engine)
    leaves = nodes()
    expected = ew.attend(*leaves, graph, engine=engine)
    other = copied(graph)
    if engine == "rows":
        mine, theirs = (layout_of(each, RowsLayout).by_target for each in (graph, other))
        assert mine.address != theirs.address
    else:  # addresses are among what is remembered
        assert layout_of(graph, TilesLayout).call_fields
        assert not layout_of(other, TilesLayout).call_fields
    del graph
    gc.collect()
    torch.randint(N, (50, 2, 60))  # takes the memory that was given back
    out = ew.attend(*leaves, other, engine=engine)
    torch.testing.assert_close(out, expected)
    out.sum().backward()


def in_another_process(graph: graphs.Graph, leaves: list[torch.Tensor], said: Any) -> None:
    torch.set_num_threads(1)
    said.put(ew.attend(*leaves, graph, engine="reference").tolist())
    said.put(ew.attend(*leaves, graph).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["rows", "tiles", "dense"])
def test_a_graph_in_use_is_an_argument_of_a_spawned_process(engine: str) -> None:
    graph = graph_for("tiles" if engine == "dense" else engine)
    leaves = nodes()
    expected = ew.attend(*leaves, graph, engine=engine)
    expected.sum().backward()
    context = multiprocessing.get_context("spawn")
    said = context.Queue()
    plain = [x.detach() for x in leaves]
    process = context.Process(target=in_another_process, args=(graph, plain, said))
    process.start()
    found = [said.get(timeout=60) for _ in range(2)]
    process.join()
    for out in found:
        torch.testing.assert_close(torch.tensor(out), expected.detach())
