"""Every engine gives what the formula gives, in output, log-sum-exp and every gradient, or refuses.

The formula is computed in float64 by ``oracle.py``, with gradients by hand; how far a result may be
from it follows from the arithmetic of its type (``arithmetic.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES, plan
from edgewise.engines.tiles.layout import TilesLayout
from edgewise.graphs import Graph
from tests.engines.case import Case
from tests.engines.cases import (
    BATCHES,
    CALLS,
    GRAPHS,
    MEMORY,
    MODERATE,
    SMALL,
    TYPES,
    UNIONS,
    WANTED,
    Aggregation,
    Call,
    Leads,
    changed,
    edges,
    serving,
    softmax,
)
from tests.engines.checks import check_case, check_threads
from tests.graphs import algebra
from tests.graphs.specification import PATTERNS, REPRESENTATIVES, Spec

# TorchDynamo reads it of every tensor, and warns again after another test has reset it.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


@pytest.fixture(autouse=True)
def _poisoned_memory() -> Iterator[None]:
    """Memory that a kernel forgets to write holds NaN."""
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)


def hold(case: Case, ran: set[str] | None = None) -> None:
    """All that must hold of a case, by these engines and no others."""
    report = check_case(case)
    assert not report.failures, "\n".join([str(case), *report.failures])
    assert ran is None or set(report.ran) == ran


def attend(call: Call, graph: Graph) -> None:
    """With and without the log-sum-exp, which engines may compute in ways of their own."""
    for lse in (False, True):
        hold(call.over(graph, lse=lse), serving(call, graph))


def in_turn(names: Sequence[str], number: int, *places: int) -> list[str]:
    """Choose names from a ring at these places after ``number``, so that all are chosen evenly."""
    return [names[(number + place) % len(names)] for place in places]


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("call", CALLS)
def test_every_call(call: str) -> None:
    others = [name for name in SMALL if name not in ("copies", "packed pairs, small")]
    chosen = in_turn(others, [*CALLS].index(call), 0)
    for name in ("copies", "packed pairs, small", *chosen):
        attend(CALLS[call], GRAPHS[name])


TERMS = ["dropout", "gatv2", "gain, masked", "edge vectors", "bias from a table", "bias by places"]
TERMS += ["grouped", "grouped, bias by offset, dropout"]


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("name", GRAPHS)
def test_every_graph(name: str) -> None:
    """Each with three of the terms; any three graphs in a row meet all terms together."""
    attend(changed("plain", heads=2), GRAPHS[name])
    if name not in MODERATE:
        attend(changed("dropout", heads=2), GRAPHS[name])
        return
    for term in in_turn(TERMS, [*GRAPHS].index(name), 0, 3, 5):
        attend(changed(term, heads=2, width=5, value_width=3), GRAPHS[name])


@pytest.mark.parametrize("call", ["additive, projected", "projected from three features"])
def test_projected_edge_vectors_of_long_rows(call: str) -> None:
    """Additive scores expand their vectors for a part of a row at a time."""
    attend(CALLS[call], GRAPHS["edges of hubs"])


def test_degree_of_one_hundred_thousand() -> None:
    attend(Call(), edges(2, 1000, 100_000))


def test_a_tile_that_three_chunks_of_targets_attend_to() -> None:
    hold(Call(heads=1).over((graphs.window(1) | graphs.hubs([5])).bind(33 * TilesLayout.BLOCK)))


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_every_pattern(spec: Spec) -> None:
    for sizes in [(n, n) for n in (1, 4, 5, 6, 8)] + [(3, 5), (7, 8), (5, 3)]:
        if spec.matrix(*sizes) is not None:
            hold(CALLS["plain"].over(spec.bind(*sizes)))
    for n in (5, 6):
        if spec.matrix(n, n) is not None:
            hold(CALLS["gain, masked"].over(spec.bind(n, n), lse=True))


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("left", REPRESENTATIVES, ids=str)
def test_compositions(left: Spec) -> None:
    after = REPRESENTATIVES[REPRESENTATIVES.index(left) :]
    for sign in algebra.BINARY:
        for right in REPRESENTATIVES if sign == "-" else after:
            composed = algebra.compose(left, sign, right)
            if composed.matrix(6, 6) is not None:
                hold(CALLS["bias"].over(composed.bind(6, 6)))


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_leading_dimensions(batch: Leads) -> None:
    for call in ("plain", "tanh", "masked", "own", "bias from a table"):
        for name in ("copies", "packed pairs, small"):
            attend(changed(call, heads=2, batch=batch), GRAPHS[name])
    for name in ("causal, a group and one", "class token"):
        attend(changed("masked", heads=2, batch=batch), GRAPHS[name])


@pytest.mark.slow(every=2)
@pytest.mark.parametrize(("width", "value_width"), [(1, 1), (3, 5), (16, 16), (32, 64), (64, 7)])
def test_widths_around_a_vector(width: int, value_width: int) -> None:
    for name in ("causal, a block and one", "packed pairs", "copies", "hubs"):
        attend(Call(heads=1, width=width, value_width=value_width), GRAPHS[name])


@pytest.mark.slow(after=2)
@pytest.mark.parametrize("memory", MEMORY)
def test_inputs_may_have_any_strides(memory: str) -> None:
    for call in ("plain", "edge vectors", "projected", "gain and bias from tables"):
        for name in ("copies", "packed pairs, small", "decoding two"):
            attend(changed(call, memory=memory, batch=((2,), (2,), (2,))), GRAPHS[name])


@pytest.mark.parametrize("wanted", WANTED, ids=" ".join)
def test_only_the_gradients_that_are_needed(wanted: tuple[str, ...]) -> None:
    for name in ("copies", "packed pairs", "bipartite"):
        attend(Call(wanted=wanted), GRAPHS[name])


@pytest.mark.slow(every=3)
@pytest.mark.parametrize(
    "name",
    ["copies", "bipartite", "window", "packed pairs", "packed unions", "all kinds", "dilated"],
)
def test_what_is_not_finite_stays_with_its_readers(name: str) -> None:
    for leaf in ("query", "key", "value"):
        for bad in (torch.nan, torch.inf):
            poison = leaf, bad, (5, 1, 2)
            hold(replace(Call(dtype=torch.float32).over(GRAPHS[name]), poison=poison))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("call", [name for name in CALLS if "dropout" not in name])
def test_every_call_in_lower_precision(call: str) -> None:
    """In float32, and in the two types of 16 bits in turn."""
    for dtype in (TYPES[0], TYPES[1 + [*CALLS].index(call) % 2]):
        for name in ("bipartite", "packed pairs, small"):
            hold(changed(call, dtype=dtype).over(GRAPHS[name], lse=True))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize(
    "name", ["causal, tiles", "packed", "wide window", "any runs", "copies", "BigBird of blocks"]
)
def test_long_rows_in_lower_precision(name: str) -> None:
    for dtype in TYPES:
        hold(Call(heads=1, width=8, dtype=dtype).over(GRAPHS[name], lse=True))


SUMMED = ["plain", "grouped", "gatv2", "bias", "bias from a table", "bias by offset"]
SUMMED += ["bias from a table of all heads", "bias by places", "gain and bias from tables"]
SUMMED += ["everything", "gelu, projected", "batch, all shared", "grouped, bias by offset, dropout"]
"""Calls with a gradient for each kind of sum that threads share."""


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("call", SUMMED)
def test_any_number_of_threads_gives_the_same_bits(call: str) -> None:
    for name in ("edges of hubs", "packed", "packed lists"):
        case = changed(call, dtype=torch.float32).over(GRAPHS[name], lse=True)
        for engine in serving(CALLS[call], GRAPHS[name]) & {"rows", "tiles"}:
            assert not check_threads(case, engine).failures


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", UNIONS)
@pytest.mark.parametrize("call", ["gatv2", "everything", "masked"])
def test_auto_runs_the_parts_where_that_is_faster(
    call: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        plan,
        "estimates",
        lambda problem, engines: dict.fromkeys(engines, -float(problem.lse)),
    )
    case = CALLS[call].over(UNIONS[name])
    hold(case)
    for engine in ENGINES.values():
        monkeypatch.setattr(type(engine), "attend", None)  # the whole is not run
    leaves = {name: leaf.tensor for name, leaf in case.leaves.items()}
    nodes = (leaves[name] for name in ("query", "key", "value"))
    ew.attend(*nodes, UNIONS[name], **case.options(leaves))


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("call", [name for name in CALLS if "dropout" not in name])
def test_scores_and_weights_of_edges(call: str) -> None:
    others = ["bipartite", "packed pairs, small", "no edges"]
    for name in ("copies", *in_turn(others, [*CALLS].index(call), 0)):
        graph = GRAPHS[name]
        for operation in ("scores", "weights"):
            hold(CALLS[call].over(graph, operation), {operation})
        chosen = CALLS[call].over(graph, "weights")
        chosen.chosen = np.array([graph.num_edges - 1, 0][: graph.num_edges], dtype=np.int64)
        hold(chosen)


@pytest.mark.parametrize("heads", [1, 3, 8, 20])
def test_softmax_over_edges(heads: int) -> None:
    for batch in ((), (2,)):
        for name in ("copies", "bipartite", "no edges", "one target reads 3077 times"):
            hold(softmax(GRAPHS[name], heads, batch), {"softmax"})


REDUCE = ["sum", "max", "mean", "min"]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("weight", ["", "one", "head", "batch"])
@pytest.mark.parametrize("reduce", REDUCE)
def test_every_aggregation(reduce: str, weight: str) -> None:
    for heads, width, lower in zip((1, 3, 8, 1), (16, 5, 16, 37), (*TYPES, TYPES[1]), strict=True):
        for name, dtype in (("copies", torch.float64), ("packed pairs, small", lower)):
            call = Aggregation(weight, heads, width, (2,), dtype=dtype)
            hold(call.over(GRAPHS[name], reduce), serving(call, GRAPHS[name], reduce))


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", GRAPHS)
def test_aggregation_over_every_graph(name: str) -> None:
    """Two in turn, of weighted values and of values that tie; all of them for rows in pieces."""
    number = [*GRAPHS].index(name)
    places = range(len(REDUCE)) if name.startswith("one target reads") else (0, 1)
    for place, reduce in enumerate(in_turn(REDUCE, number, *places)):
        call = Aggregation("" if place % 2 else "head", ties=bool(place % 2))
        hold(call.over(GRAPHS[name], reduce), serving(call, GRAPHS[name], reduce))
