"""Rules that every engine keeps where it serves: scales, batches, types, NaN, ties, devices."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.graphs import Pattern
from tests.errors import refused

EVERY = [*sorted(ENGINES), "auto"]
GRAPH = graphs.edges(torch.tensor([[0, 1, 2, 2, 3], [1, 1, 0, 2, 3]]), 5)
E, N, H, D = 5, 5, 2, 3


def outcome(engine: str, run: Callable[[str], Tensor], *leaves: Tensor) -> list[Tensor]:
    """What a run gives on an engine, and the gradients; the test ends where the engine refuses."""
    try:
        out = run(engine)
    except ew.ArgumentError as error:
        if error.argument != "engine":
            raise
        pytest.skip(f"{engine} refuses: {error.got}")
    if not leaves:
        return [out]
    weight = torch.linspace(-1, 2, out.numel(), dtype=torch.float64).view(out.shape)
    total = (out.double().nan_to_num(0, 0, 0) * weight).sum()
    return [out, *torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)]


def same(ours: list[Tensor], truth: list[Tensor], tolerance: float) -> None:
    for mine, true in zip(ours, truth, strict=True):
        assert mine.dtype == true.dtype
        finite = true.detach()[true.isfinite()].abs()
        size = max(1.0, float(finite.max())) if finite.numel() else 1.0
        torch.testing.assert_close(mine, true, rtol=0, atol=tolerance * size, equal_nan=True)


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize(
    ("scale", "dtype", "pattern"),
    [
        (-1.0, torch.float32, graphs.causal()),
        (0.0, torch.float32, graphs.causal()),
        (0.0, torch.bfloat16, graphs.complete()),
        (0.3, torch.float32, graphs.complete()),
        (0.0, torch.float32, GRAPH),
        (-1.0, torch.bfloat16, GRAPH),
    ],
    ids=str,
)
def test_any_scale(engine: str, scale: float, dtype: torch.dtype, pattern: Pattern) -> None:
    """PyTorch's causal kernel gives NaN for a scale of 0 or less."""
    torch.manual_seed(0)
    leaves = [torch.randn(2, N, H, 8).to(dtype).requires_grad_() for _ in range(3)]
    wide = [x.detach().double().requires_grad_() for x in leaves]

    def run(nodes: list[Tensor]) -> Callable[[str], Tensor]:
        return lambda engine: ew.attend(*nodes, pattern, score=ew.Dot(scale), engine=engine)

    ours = outcome(engine, run(leaves), *leaves)
    truth = [x.to(dtype) for x in outcome("reference", run(wide), *wide)]
    same(ours, truth, 2e-5 if dtype == torch.float32 else 4 * 2**-7)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("lead", [(1,), (3,), (1, 1), (2, 1), (2, 3)])
@pytest.mark.parametrize(("term", "pattern"), [("bias", graphs.causal()), ("gain", GRAPH)], ids=str)
def test_terms_that_broadcast(
    engine: str, lead: tuple[int, ...], pattern: Pattern, term: str
) -> None:
    torch.manual_seed(0)
    edges = pattern.bind(N).num_edges
    nodes = [torch.randn(3, N, H, D, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    given = torch.randn(*lead, edges, H, dtype=torch.float64, requires_grad=True)

    def run(engine: str) -> Tensor:
        return ew.attend(*nodes, pattern, **{term: given}, engine=engine)

    same(outcome(engine, run, *nodes, given), outcome("reference", run, *nodes, given), 1e-12)


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize(
    "pattern", [graphs.window(1) | graphs.hubs([0]), graphs.complete(), GRAPH], ids=str
)
def test_values_with_members_of_their_own(engine: str, pattern: Pattern) -> None:
    """Output and log-sum-exp have the leading dimensions of all arguments together."""
    torch.manual_seed(0)
    query = torch.randn(N, H, D, dtype=torch.float64, requires_grad=True)
    value = torch.randn(3, N, H, D, dtype=torch.float64, requires_grad=True)
    one = ew.attend(query, query, value[1], pattern, engine="reference")

    def run(engine: str) -> Tensor:
        out, lse = ew.attend_with_lse(query, query, value, pattern, engine=engine)
        assert out.shape == (3, N, H, D)
        assert lse.shape == (3, N, H)
        assert ew.attend(query, query, value, pattern, engine=engine).allclose(out)
        return out

    ours = outcome(engine, run, query, value)
    torch.testing.assert_close(ours[0][1], one)
    same(ours, outcome("reference", run, query, value), 1e-12)


@pytest.mark.parametrize("engine", EVERY)
def test_members_of_values_draw_masks_of_their_own(engine: str) -> None:
    query = torch.randn(40, 1, 4)
    value = torch.ones(2, 40, 1, 4)
    torch.manual_seed(0)

    def run(engine: str) -> Tensor:
        options: dict[str, Any] = {"dropout": 0.5, "engine": engine}
        out, _ = ew.attend_with_lse(query, query, value, graphs.complete(), **options)
        assert not out[0].equal(out[1])
        return ew.attend(query, query, value, graphs.complete(), **options)

    out = outcome(engine, run)[0]
    assert not out[0].equal(out[1])


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize(
    ("dtype", "pattern"),
    [
        (torch.float32, GRAPH),
        (torch.float32, graphs.complete()),
        (torch.bfloat16, graphs.causal()),
        (torch.float16, graphs.complete()),
    ],
    ids=str,
)
def test_a_row_of_masked_scores(engine: str, dtype: torch.dtype, pattern: Pattern) -> None:
    """A finite mask on all of a row leaves its weights as they are, and their gradients."""
    torch.manual_seed(0)
    graph = pattern.bind(N)
    leaves = [torch.randn(N, H, 8).to(dtype).requires_grad_() for _ in range(3)]
    bias = torch.zeros(graph.num_edges, 1).masked_fill((graph.target == 2)[:, None], -1e9)

    def run(engine: str, bias: Tensor | None = bias) -> Tensor:
        return ew.attend(*leaves, graph, score=ew.Dot(1e-9), bias=bias, engine=engine)

    ours = outcome(engine, run, *leaves)
    truth = outcome("reference", lambda engine: run(engine, None), *leaves)
    same(ours, truth, 1e-5 if dtype == torch.float32 else 2e-2)


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("pattern", [graphs.causal(), GRAPH], ids=str)
def test_large_scores_neither_overflow_nor_lose_the_sum(engine: str, pattern: Pattern) -> None:
    graph = pattern.bind(N if pattern is GRAPH else 263)
    query, key, value = (torch.randn(graph.num_targets, 2, 8) for _ in range(3))
    query *= 1e4
    wide = (x.double() for x in (query, key, value))
    true, exact = ew.attend_with_lse(*wide, graph, engine="reference")
    sums = []

    def run(engine: str) -> Tensor:
        out, lse = ew.attend_with_lse(query, key, value, graph, engine=engine)
        sums.append(lse.double())
        return out

    out = outcome(engine, run)[0]
    torch.testing.assert_close(out.double(), true, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(ew.attend(query, key, value, graph, engine=engine), out)
    largest = float(exact[exact.isfinite()].abs().max())  # a score is a sum of 8 that large
    rounding = 8 * torch.finfo(torch.float32).eps * largest
    torch.testing.assert_close(sums[0], exact, rtol=0, atol=rounding)


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("reduce", ["max", "min"])
def test_an_extreme_of_0_is_no_tie(engine: str, reduce: ew.Reduce) -> None:
    value = torch.tensor([0.0, -1.0, 1.0]).view(3, 1, 1).requires_grad_()
    graph = graphs.edges(torch.tensor([[0, 1 if reduce == "max" else 2], [0, 0]]), 3)

    def run(engine: str) -> Tensor:
        return ew.aggregate(value, graph, reduce=reduce, engine=engine)

    weighted = outcome(engine, lambda engine: run(engine)[:1] * -1, value)
    assert weighted[1].flatten().tolist() == [1.0, 0.0, 0.0]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("nodes_in", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("terms_in", [torch.float32, torch.float64, torch.float16], ids=str)
def test_terms_of_another_type(engine: str, nodes_in: torch.dtype, terms_in: torch.dtype) -> None:
    """They are used in the type of the sums, and their gradients come in their own."""
    torch.manual_seed(0)
    pattern = graphs.window(1)
    edges = pattern.bind(N).num_edges
    nodes = [torch.randn(N, H, D).to(nodes_in).requires_grad_() for _ in range(3)]
    table = torch.randn(4, H).to(terms_in).requires_grad_()
    gain, vector = (torch.randn(edges, *s).to(terms_in).requires_grad_() for s in ((H,), (H, D)))
    weight = torch.randn(H, D).to(terms_in).requires_grad_()
    bias = ew.TableBias(torch.arange(edges) % 4, table)
    options: list[tuple[dict[str, Any], Tensor]] = [
        ({"bias": bias}, table),
        ({"gain": gain}, gain),
        ({"edge_key": vector}, vector),
        ({"edge_value": vector}, vector),
        ({"score": ew.Additive("tanh", weight)}, weight),
    ]
    served = 0
    for given, leaf in options:

        def run(engine: str, given: dict[str, Any] = given) -> Tensor:
            _, lse = ew.attend_with_lse(*nodes, pattern, engine=engine, **given)
            assert lse.dtype == (torch.float64 if nodes_in == torch.float64 else torch.float32)
            return ew.attend(*nodes, pattern, engine=engine, **given)

        try:
            ours = outcome(engine, run, *nodes, leaf)
        except pytest.skip.Exception:
            continue
        served += 1
        assert ours[0].dtype == nodes_in
        same(ours, outcome("reference", run, *nodes, leaf), 1e-5 if nodes_in.itemsize > 2 else 5e-2)
    if not served:
        pytest.skip(f"{engine} refuses all of them")


@pytest.mark.parametrize("engine", EVERY)
def test_tables_take_any_integers(engine: str) -> None:
    nodes = [torch.randn(N, H, D) for _ in range(3)]
    table, index = torch.randn(3, H), torch.tensor([0, 1, 1, 2, 0])

    def run(engine: str, dtype: torch.dtype) -> Tensor:
        bias = ew.TableBias(index.to(dtype), table)
        return ew.attend(*nodes, GRAPH, bias=bias, engine=engine)

    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        ours = outcome(engine, partial(run, dtype=dtype))
        same(ours, [run("reference", torch.int64)], 1e-6)


def test_the_gradient_of_a_16_bit_table_is_summed_in_32() -> None:
    """512 edges of weight 1/512 each: bfloat16 would stop counting at 256."""
    table = torch.zeros(1, 1, dtype=torch.bfloat16, requires_grad=True)
    graph = graphs.edges(torch.stack([torch.zeros(600).long(), torch.arange(600)]), 600)
    value = torch.ones(600, 1, 1, dtype=torch.bfloat16)
    bias = ew.TableBias(torch.zeros(600).long(), table)
    _, lse = ew.attend_with_lse(value, value, value, graph, bias=bias, engine="reference")
    lse.sum().backward()
    assert table.grad is not None
    assert table.grad.item() == torch.tensor(600.0).bfloat16().item()


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("pattern", [graphs.complete(), GRAPH], ids=str)
def test_an_empty_batch(engine: str, pattern: Pattern) -> None:
    nodes = [torch.randn(0, N, H, D, requires_grad=True) for _ in range(3)]
    edges = pattern.bind(N).num_edges
    bias = torch.randn(edges, H, requires_grad=True)
    table = torch.randn(3, H, requires_grad=True)
    for term, leaf in ((bias, bias), (ew.TableBias(torch.arange(edges) % 3, table), table)):

        def run(engine: str, term: Any = term) -> Tensor:
            return ew.attend(*nodes, pattern, bias=term, engine=engine)

        out, *gradients = outcome(engine, run, *nodes, leaf)
        assert out.shape == (0, N, H, D)
        assert gradients[3].equal(torch.zeros_like(leaf))


@pytest.mark.parametrize("engine", EVERY)
def test_double_dropout_is_scaled_in_double(engine: str) -> None:
    value = torch.ones(50, 1, 2, dtype=torch.float64)
    query = torch.zeros(50, 1, 2, dtype=torch.float64)

    def run(engine: str) -> Tensor:
        return ew.attend(query, query, value, graphs.complete(), dropout=0.3, engine=engine)

    out = outcome(engine, run)[0] * 50 * 0.7  # the number of weights that were kept
    torch.testing.assert_close(out, out.round(), rtol=0, atol=1e-12)


META = torch.device("meta")
ON_META: dict[str, dict[str, Any]] = {
    "bias": {"bias": torch.zeros(E, H, device=META)},
    "gain": {"gain": torch.zeros(E, H, device=META)},
    "bias table": {
        "bias": ew.TableBias(torch.zeros(E).long().to(META), torch.zeros(1, H).to(META))
    },
    "edge_key": {"edge_key": torch.zeros(E, H, D, device=META)},
    "edge_value": {"edge_value": torch.zeros(E, H, D, device=META)},
    "edge_key features": {
        "edge_key": ew.Projected(torch.zeros(E, 2, device=META), torch.zeros(H, D, 2))
    },
    "edge_value weight": {
        "edge_value": ew.Projected(torch.zeros(E, 2), torch.zeros(H, D, 2, device=META))
    },
    "score.weight": {"score": ew.Additive("tanh", torch.zeros(H, D, device=META))},
}


@pytest.mark.parametrize("engine", EVERY)
def test_everything_is_on_one_device(engine: str) -> None:
    nodes = [torch.randn(N, H, D) for _ in range(3)]
    for name, options in ON_META.items():
        with refused(name.split(maxsplit=1)[0], expected="on cpu", got="meta", remedy=".to('cpu')"):
            ew.attend(*nodes, GRAPH, engine=engine, **options)
    with refused("weight", expected="on cpu", got="meta", remedy=".to('cpu')"):
        ew.aggregate(torch.randn(N, H, D), GRAPH, weight=torch.zeros(E, H).to(META), engine=engine)


def test_a_table_and_its_index_are_on_one_device() -> None:
    with refused("TableBias.index", expected="on meta", got="cpu", remedy="move index and table"):
        ew.TableBias(torch.zeros(E).long(), torch.zeros(1, H, device=META))


@pytest.mark.parametrize("engine", EVERY)
def test_heads_may_come_first(engine: str) -> None:
    """PyTorch's layout, in and out."""
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, 7, 4) for _ in range(3))
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)

    def run(engine: str) -> Tensor:
        return ew.attend(query, key, value, graphs.causal(), layout="HND", engine=engine)

    same(outcome(engine, run), [theirs], 1e-6)


def test_what_looks_like_heads_first_is_warned_of() -> None:
    x = torch.randn(2, 8, 64, 4)
    with pytest.warns(UserWarning, match="layout='HND'"):
        ew.attend(x, x, x, graphs.causal())
    with refused("layout", expected="one of HND", got="BHND", remedy="did you mean 'HND'"):
        ew.attend(x, x, x, graphs.causal(), layout="BHND")  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ew.attend(x, x, x, graphs.causal(), layout="NHD")
        ew.attend(x, x, x, graphs.causal(), layout="HND")
        ew.attend(x.transpose(1, 2), x.transpose(1, 2), x.transpose(1, 2), graphs.causal())
        ew.attend(x[:, -1:], x, x, graphs.causal())  # a step of decoding
