"""How exact is a low precision? At most twice the error of an independent computation in it.

Both are compared with float64 on the same inputs, as flash-attention's tests do. The independent
computation is the textbook formula on dense matrices in that precision, rounded at every step.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.engines import ENGINES
from edgewise.graphs import Graph

GRAPHS: dict[str, Graph] = {
    "complete": graphs.complete().bind(33),
    "causal": graphs.causal().bind(33),
    "window": graphs.window(4, 2).bind(33),
    "ragged": graphs.batch(graphs.complete(), [20, 1, 12]),
    "isolated": graphs.random(3, 1).bind(33) - graphs.hubs([5, 6]),
    "union": (graphs.window(2) | graphs.hubs([0]) | graphs.random(2)).bind(33),
}
KINDS = ["dot", "bias", "gain", "additive", "no score"]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
HEADS, WIDTH = 3, 24


def inputs(graph: Graph, kind: str) -> dict[str, Tensor]:
    n = graph.num_targets
    given = {name: torch.randn(n, HEADS, WIDTH) for name in ("query", "key", "value")}
    if kind in ("bias", "no score"):
        given["bias"] = torch.randn(graph.num_edges, HEADS)
    if kind == "gain":
        given["gain"] = torch.randn(graph.num_edges, HEADS)
    if kind == "additive":
        given["weight"] = torch.randn(HEADS, WIDTH) / WIDTH**0.5
    return given


def textbook(graph: Graph, kind: str, given: dict[str, Tensor]) -> Tensor:
    """The formula on matrices, every step in the precision of the inputs."""
    query, key, value = (given[name].transpose(0, 1) for name in ("query", "key", "value"))
    if kind == "additive":
        energy = torch.nn.functional.leaky_relu(query[:, :, None] + key[:, None], 0.2)
        scores = (energy * given["weight"][:, None, None]).sum(-1)
    elif kind == "no score":
        scores = torch.zeros(HEADS, query.shape[1], key.shape[1], dtype=query.dtype)
    else:
        scores = query @ key.transpose(-1, -2) / WIDTH**0.5
    source, target = graph.edge_index
    if "gain" in given:
        gain = torch.zeros_like(scores)
        gain[:, target, source] = given["gain"].T
        scores = scores * gain
    if "bias" in given:
        bias = torch.zeros_like(scores)
        bias[:, target, source] = given["bias"].T
        scores = scores + bias
    scores = scores.masked_fill(~graph.dense(), -torch.inf)
    power = (scores - scores.amax(-1, keepdim=True).clamp(min=-1e4)).exp()
    weights = power / power.sum(-1, keepdim=True).clamp(min=1e-4)
    return (weights @ value).transpose(0, 1)


def ours(graph: Graph, kind: str, given: dict[str, Tensor], engine: str) -> Tensor:
    options: dict[str, object] = {k: given[k] for k in ("bias", "gain") if k in given}
    if kind == "additive":
        options["score"] = ew.Additive(weight=given["weight"])
    if kind == "no score":
        options["score"] = None
    nodes = (given[name] for name in ("query", "key", "value"))
    return ew.attend(*nodes, graph, engine=engine, **options)  # type: ignore[arg-type]


def with_gradients(run: object, given: dict[str, Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The output and the gradient of each input, computed in that precision, as float64."""
    low = {name: x.to(dtype).requires_grad_() for name, x in given.items()}
    out = run(low)  # type: ignore[operator]
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view_as(out).to(dtype)
    gradients = torch.autograd.grad(
        out, list(low.values()), weight, allow_unused=True, materialize_grads=True
    )
    return [x.detach().double() for x in (out, *gradients)]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_error_is_at_most_twice_that_of_the_textbook(name: str, kind: str) -> None:
    """In the types in turn, so that each meets every kind on two graphs."""
    graph = GRAPHS[name]
    dtype = DTYPES[([*GRAPHS].index(name) + KINDS.index(kind)) % 3]
    given = {k: x.to(dtype).float() for k, x in inputs(graph, kind).items()}
    exact = with_gradients(lambda x: ours(graph, kind, x, "reference"), given, torch.float64)
    book = with_gradients(lambda x: textbook(graph, kind, x), given, dtype)
    for engine in [*ENGINES, "auto"]:
        try:
            mine = with_gradients(lambda x: ours(graph, kind, x, engine), given, dtype)  # noqa: B023
        except ew.ArgumentError:
            continue  # it may refuse where test_cases.py says so
        for true, theirs, my in zip(exact, book, mine, strict=True):
            unit = torch.finfo(dtype).eps * true.abs().max()  # where theirs happens to be exact
            bound = 2 * (theirs - true).abs().max() + unit
            assert (my - true).abs().max() <= bound, engine


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_have_the_type_of_the_inputs(dtype: torch.dtype, engine: str) -> None:
    """Also beside terms of a longer type: a float32 table with 16-bit features is usual."""
    x = torch.randn(4, 2, 3, dtype=dtype)
    graph = graphs.window(1).bind(4)
    bias = torch.randn(graph.num_edges, 2)
    for options in ({}, {"bias": bias}, {"gain": bias}):
        if engine != "tiles" or not options:
            assert ew.attend(x, x, x, graph, engine=engine, **options).dtype == dtype
    assert ew.attention_weights(x, x, graph).dtype in (dtype, torch.float32)


AUTOCAST: dict[str, dict[str, Any]] = {
    "dot": {},
    "edge vectors": {"edge_key": "full", "edge_value": "full"},
    "projected edge vectors": {"edge_key": "projected", "edge_value": "projected"},
    "additive": {"score": ew.Additive("tanh", torch.ones(HEADS, WIDTH))},
    "entmax": {"normaliser": "entmax"},
    "own": {"score": lambda query, key: torch.einsum("...d,...d->...", query, key)},
}


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
@pytest.mark.parametrize("kind", AUTOCAST)
@pytest.mark.parametrize("name", ["window", "union"])
def test_autocast_changes_nothing(name: str, kind: str, engine: str) -> None:
    """Attention is computed in the type of its inputs, in edge vectors and scores of any size."""
    graph = GRAPHS[name]
    query, key, value = 10 * torch.randn(3, graph.num_targets, HEADS, WIDTH)
    vectors = {
        "full": torch.randn(graph.num_edges, HEADS, WIDTH),
        "projected": ew.Projected(torch.randn(graph.num_edges, 5), torch.randn(HEADS, WIDTH, 5)),
    }
    options = {k: vectors[v] if k.startswith("edge") else v for k, v in AUTOCAST[kind].items()}

    def run() -> list[Tensor]:
        found = [ew.attend(query, key, value, graph, engine=engine, **options)]
        if kind != "entmax":
            found += ew.attend_with_lse(query, key, value, graph, engine=engine, **options)
        return found

    try:
        wanted = run()
    except ArgumentError as error:
        pytest.skip(str(error))
    with torch.autocast("cpu", torch.bfloat16):
        found = run()
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_autocast_changes_no_step_and_no_sum() -> None:
    graph = GRAPHS["union"]
    query, key = torch.randn(2, graph.num_targets, HEADS, WIDTH)
    edge_key = ew.Projected(torch.randn(graph.num_edges, 5), torch.randn(HEADS, WIDTH, 5))
    few = torch.arange(0, graph.num_edges, 7)

    def run() -> list[Tensor]:
        options: dict[str, Any] = {"edge_key": edge_key, "score": AUTOCAST["own"]["score"]}
        scores = ew.edge_scores(query, key, graph, **options)
        return [
            scores,
            ew.edge_softmax(scores, graph),
            ew.attention_weights(query, key, graph, **options),
            ew.attention_weights(query, key, graph, edges=few, **options),
            ew.aggregate(key, graph, weight=scores, engine="dense"),
        ]

    wanted = run()
    with torch.autocast("cpu", torch.bfloat16):
        found = run()
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("engine", [*ENGINES, "auto"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_mixed_types_are_converted(dtype: torch.dtype, engine: str) -> None:
    """Rotary queries and keys are in float32 under autocast, and values in 16 bits."""
    graph = GRAPHS["window"]
    nodes = torch.randn(3, graph.num_targets, HEADS, WIDTH)
    converted = nodes.to(dtype).requires_grad_()
    expected = ew.attend(*converted, graph, engine=engine)
    (expected_gradient,) = torch.autograd.grad(expected.float().sum(), converted)
    expected_weights = ew.attention_weights(converted[0], converted[1], graph)
    for types in [*itertools.product([dtype, torch.float32], repeat=3)][1:-1]:
        mixed = [x.to(t).requires_grad_() for x, t in zip(nodes, types, strict=True)]
        with torch.autocast("cpu", dtype):
            out = ew.attend(*mixed, graph, engine=engine)
            weights = ew.attention_weights(*mixed[:2], graph)
        assert torch.equal(out, expected)
        if types[0] != types[1]:
            assert torch.equal(weights, expected_weights)
        gradients = torch.autograd.grad(out.float().sum(), mixed)
        assert [gradient.dtype for gradient in gradients] == [*types]
        for gradient, other in zip(gradients, expected_gradient, strict=True):
            assert torch.equal(gradient, other.to(gradient))
        with pytest.raises(ArgumentError, match="as in query"):
            ew.attend(*mixed, graph, engine=engine)


def test_autocast_does_not_convert_float64() -> None:
    query, key, value = torch.randn(3, 4, HEADS, WIDTH)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ArgumentError, match="float64"):
        ew.attend(query.double(), key, value, ew.graphs.complete())


@pytest.mark.parametrize("dropout", [0.0, 0.9])
def test_the_bias_gradient_of_tiles_is_off_by_the_rounding_of_its_output(dropout: float) -> None:
    """Its error is at most weight · sum of abs(grad · out) times the rounding of bfloat16."""
    graph = graphs.batch(graphs.hubs([0]), [5, 40, 12, 30])
    shape = (graph.num_targets, HEADS, WIDTH)
    query, key, value = (torch.randn(shape, dtype=torch.bfloat16) for _ in range(3))
    bias = torch.randn(graph.num_edges, HEADS)
    grad = torch.randn(shape, dtype=torch.bfloat16)

    def run(engine: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        torch.manual_seed(1)
        given = bias.to(torch.float64 if dtype == torch.float64 else torch.float32)
        given.requires_grad_()
        nodes = (x.to(dtype) for x in (query, key, value))
        out = ew.attend(*nodes, graph, bias=given, dropout=dropout, engine=engine)
        (found,) = torch.autograd.grad(out, given, grad.to(dtype))
        return out.detach().double(), found.double()

    try:
        _, found = run("tiles", torch.bfloat16)
    except ArgumentError as error:
        pytest.skip(str(error))
    out, exact = run("reference", torch.float64)
    wide = query.double(), key.double()
    weights = ew.attention_weights(*wide, graph, bias=bias.double())
    bound = weights * (2.0**-8 * (grad.double() * out).abs().sum(-1))[graph.target]
    away = (found - exact).abs()
    assert (away <= bound + 1e-4).all()
    assert away.max() > 1e-3  # the output is what loses digits
    _, by_rows = run("rows", torch.bfloat16)
    torch.testing.assert_close(by_rows, exact, rtol=0, atol=1e-4)
