"""What the primitive accepts, and what it says of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import edgewise as ew
from edgewise import graphs
from tests.errors import refused

GRAPH = graphs.edges(torch.tensor([[0, 1, 2, 2], [1, 1, 0, 2]]), 4)
E, N, H, D = 4, 4, 2, 3


def call(**changed: Any) -> Tensor:
    """A good call but for what is changed."""
    given: dict[str, Any] = {
        "query": torch.randn(N, H, D),
        "key": torch.randn(N, H, D),
        "value": torch.randn(N, H, 5),
        "graph": GRAPH,
    }
    return ew.attend(**(given | changed))


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


# What is changed, then the argument, expected, got and remedy that the error must name.
BAD: dict[str, tuple[dict[str, Any], tuple[str, str, str, str]]] = {
    "query without heads": (
        {"query": zeros(N, D)},
        ("query", "[..., N, H, D]", "[4, 3]", ".unflatten(-1, (H, D))"),
    ),
    "key of integers": (
        {"key": zeros(N, H, D, dtype=torch.long)},
        ("key", "floats", "torch.int64", ".unflatten"),
    ),
    "value that is a list": ({"value": [1.0]}, ("value", "floats", "list", "heads")),
    "heads of the key": (
        {"key": zeros(N, 3, D)},
        ("key", "as many heads as query, 2,", "3", "nodes, heads, width"),
    ),
    "heads of the value": (
        {"value": zeros(N, 1, D)},
        ("value", "as many heads as key, 2", "1", "nodes, heads, width"),
    ),
    "width of the key": (
        {"key": zeros(N, H, 4)},
        ("key", "as many features per head as query, 3", "4", "nodes, heads, width"),
    ),
    "sources of the value": (
        {"value": zeros(5, H, D)},
        ("value", "as many sources as key, 4", "5", "nodes, heads, width"),
    ),
    "type of the value": (
        {"value": zeros(N, H, D, dtype=torch.float64)},
        ("value", "torch.float32 on cpu", "torch.float64", ".to(query)"),
    ),
    "nodes of the graph": (
        {"query": zeros(5, H, D)},
        ("graph", "5 targets and 4 sources", "4 nodes", "number of nodes"),
    ),
    "batches": (
        {"query": zeros(2, N, H, D), "key": zeros(3, N, H, D)},
        ("query, key, value", "broadcast", "query [2], key [3], value []", "width"),
    ),
    "batch of the bias": (
        {"query": zeros(2, N, H, D), "bias": zeros(3, E, H)},
        ("query, key, value, bias", "broadcast", "query [2]", "[edges, heads]"),
    ),
    "a graph that is none": (
        {"graph": torch.ones(2, 3)},
        ("graph", "a graph or a pattern", "Tensor", "graphs.edges(edge_index, num_nodes)"),
    ),
    "a pattern that cannot bind": (
        {"graph": graphs.grid(2, 3)},
        ("graph", "6 nodes, for grid(2, 3)", "4 targets and 4 sources", "number of targets"),
    ),
    "targets after the sources": (
        {"query": zeros(5, H, D), "graph": graphs.causal()},
        ("graph", "no more targets than sources, for causal()", "5 targets", "pattern"),
    ),
    "bias of another length": (
        {"bias": zeros(5, H)},
        ("bias", "[..., 4, 2] or [..., 4, 1]", "[5, 2]", "in the order of graph.edge_index"),
    ),
    "a matrix as bias": (
        {"bias": zeros(N, N, 1, 1)},
        ("bias", "(edges, heads)", "[4, 4, 1, 1]", "graph.edge_index"),
    ),
    "bias without heads": ({"bias": zeros(E)}, ("bias", "[..., 4, 1]", "[4]", "one row per edge")),
    "bias of other heads": ({"bias": zeros(E, 3)}, ("bias", "[..., 4, 2]", "[4, 3]", "one row")),
    "bias of integers": (
        {"bias": zeros(E, H, dtype=torch.long)},
        ("bias", "floats", "torch.int64", ".to("),
    ),
    "a list as bias": ({"bias": [[0.0]] * E}, ("bias", "a tensor of floats", "list", "as_tensor")),
    "nodes of 8 bits": (
        {name: zeros(N, H, D, dtype=torch.float8_e4m3fn) for name in ("query", "key", "value")},
        ("query", "16, 32 or 64 bits", "float8", "(H, D)"),
    ),
    "table of another length": (
        {"bias": ew.TableBias(torch.zeros(3, dtype=torch.long), zeros(2, H))},
        ("bias", "[..., 4, 2]", "[3, 2]", "one row per edge"),
    ),
    "table of other heads": (
        {"bias": ew.TableBias(torch.zeros(E, dtype=torch.long), zeros(2, 5))},
        ("bias", "[..., 4, 2]", "[4, 5]", "one row per edge"),
    ),
    "gain of another length": ({"gain": zeros(3, 1)}, ("gain", "4", "[3, 1]", "edge_index")),
    "edge keys": (
        {"edge_key": zeros(E, H, 5)},
        ("edge_key", "[4, 2, 3]", "[4, 2, 5]", "one vector"),
    ),
    "edge values": (
        {"edge_value": zeros(E, H, D)},
        ("edge_value", "[4, 2, 5]", "[4, 2, 3]", "order of graph.edge_index"),
    ),
    "projected edge keys": (
        {"edge_key": ew.Projected(zeros(3, 6), zeros(H, D, 6))},
        ("edge_key", "[4, 2, 3]", "[3, 2, 3]", "one vector per edge"),
    ),
    "Additive without a weight": (
        {"score": ew.Additive()},
        ("score", "weight of shape [2, 3]", "no weight", "width 1"),
    ),
    "Additive with another weight": (
        {"score": ew.Additive(weight=zeros(2, 4))},
        ("score.weight", "[2, 3] (heads and width", "[2, 4]", "one vector per head"),
    ),
    "a score by name": ({"score": "dot"}, ("score", "Dot()", "'dot'", "edgewise.attention.scores")),
    "dropout in percent": (
        {"dropout": 10.0},
        ("dropout", "a number from 0 to 1", "10.0", "0.0 otherwise"),
    ),
    "negative dropout": ({"dropout": -0.1}, ("dropout", "from 0 to 1", "-0.1", "0.0 otherwise")),
    "an unknown engine": (
        {"engine": "densse"},
        ("engine", "one of dense, auto, reference", "'densse'", "did you mean 'dense'?"),
    ),
}


@pytest.mark.parametrize(("changed", "words"), BAD.values(), ids=BAD)
def test_what_the_error_says(changed: dict[str, Any], words: tuple[str, str, str, str]) -> None:
    call()
    argument, expected, got, remedy = words
    with refused(argument, expected=expected, got=got, remedy=remedy):
        call(**changed)


@pytest.mark.parametrize(
    ("name", "shape", "engine"),
    [("bias", (E, H), "auto"), ("bias", (E, H), "dense"), ("edge_key", (E, H, D), "auto")],
)
def test_a_batch_of_an_edge_term_is_good_input(
    name: str, shape: tuple[int, ...], engine: str
) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(N, H, D), torch.randn(N, H, D), torch.randn(N, H, 5)
    term = torch.randn(3, *shape)
    nodes = {"query": query, "key": key, "value": value}
    together = call(**nodes, **{name: term}, engine=engine)
    for member in range(3):
        alone = call(**nodes, **{name: term[member]})
        torch.testing.assert_close(together[member], alone)


def test_an_engine_that_cannot_serve_says_why_and_what_the_others_say() -> None:
    twice = graphs.edges(torch.tensor([[0, 0], [1, 1]]), N)
    reasons = "a matrix cannot represent an edge that occurs twice, edge_key and edge_value"
    with refused("engine", expected="supports", got=reasons, remedy="reference: supports"):
        call(graph=twice, edge_key=zeros(2, H, D), engine="dense")
    with refused("engine", expected="", got="cannot reduce by max", remedy='engine="auto"'):
        ew.aggregate(zeros(N, H, D), GRAPH, reduce="max", engine="dense")


AGGREGATE: dict[str, tuple[Callable[[], Any], tuple[str, str, str, str]]] = {
    "reduce": (
        lambda: ew.aggregate(zeros(N, D), GRAPH, reduce="avg"),  # type: ignore[arg-type]
        ("reduce", "max, mean, min, sum", "'avg'", ""),
    ),
    "value": (
        lambda: ew.aggregate(zeros(N), GRAPH),
        ("value", "[..., N, H, D]", "[4]", "heads"),
    ),
    "nodes": (
        lambda: ew.aggregate(zeros(5, D), GRAPH),
        ("graph", "5 sources", "4 nodes", "number of nodes"),
    ),
    "weight": (
        lambda: ew.aggregate(zeros(N, D), GRAPH, weight=zeros(3)),
        ("weight", "[..., 4, 1]", "[3, 1]", "one row per edge"),
    ),
    "weight of integers": (
        lambda: ew.aggregate(zeros(N, D), GRAPH, weight=zeros(E, dtype=torch.long)),
        ("weight", "floats", "torch.int64", ".to("),
    ),
    "weight as a list": (
        lambda: ew.aggregate(zeros(N, D), GRAPH, weight=[1.0] * E),  # type: ignore[arg-type]
        ("weight", "a tensor of floats", "list", "as_tensor"),
    ),
    "scores": (
        lambda: ew.edge_softmax(zeros(3, H), GRAPH),
        ("scores", "[..., 4, 2]", "[3, 2]", "one row per edge"),
    ),
    "scores without heads": (
        lambda: ew.edge_softmax(zeros(E), GRAPH),
        ("scores", "(edges, heads)", "[4]", "one row per edge"),
    ),
    "scores without a size": (
        lambda: ew.edge_softmax(zeros(E, H), graphs.complete()),  # type: ignore[arg-type]
        ("graph", "a fixed number of nodes", "complete()", ".bind(num_nodes)"),
    ),
    "index of floats": (
        lambda: ew.TableBias(zeros(E), zeros(2, H)),
        ("TableBias.index", "integers of shape [E]", "torch.float32", ".long()"),
    ),
    "index out of range": (
        lambda: ew.TableBias(torch.tensor([0, 2]), zeros(2, H)),
        ("TableBias.index", "classes from 0 to 1", "from 0 to 2", "more rows"),
    ),
    "negative index": (
        lambda: ew.TableBias(torch.tensor([-1, 1]), zeros(2, H)),
        ("TableBias.index", "classes from 0 to 1", "from -1 to 1", "clip"),
    ),
    "table": (
        lambda: ew.TableBias(torch.tensor([0]), zeros(2)),
        ("TableBias.table", "[classes, H]", "[2]", "one column per head"),
    ),
    "projection": (
        lambda: ew.Projected(zeros(E, 3), zeros(H, D, 4)),
        ("Projected", "the same F", "[4, 3] and [2, 3, 4]", ".view(H, D, F)"),
    ),
    "projection of a batch": (
        lambda: ew.Projected(zeros(2, E, 3), zeros(H, D, 3)),
        ("Projected", "features [E, F]", "[2, 4, 3] and [2, 3, 3]", "batch dimension"),
    ),
    "activation": (
        lambda: ew.Additive("leaky"),
        ("activation", "one of leaky_relu, gelu, identity", "'leaky'", "'leaky_relu'"),
    ),
}


@pytest.mark.parametrize(("make", "words"), AGGREGATE.values(), ids=AGGREGATE)
def test_what_the_other_errors_say(
    make: Callable[[], Any], words: tuple[str, str, str, str]
) -> None:
    argument, expected, got, remedy = words
    with refused(argument, expected=expected, got=got, remedy=remedy):
        make()


@pytest.mark.parametrize("engine", ["auto", "dense", "reference"])
@pytest.mark.parametrize("batch", [(), (2,), (0,), (2, 3)], ids=str)
@pytest.mark.parametrize(("n", "heads"), [(0, H), (1, H), (3, H), (3, 0)])
def test_empty_graphs_and_single_nodes_are_good_input(
    n: int, heads: int, batch: tuple[int, ...], engine: str
) -> None:
    x = torch.randn(*batch, n, heads, D, requires_grad=True)
    for pattern in (graphs.empty(), graphs.causal() - graphs.window(0), graphs.random(0)):
        alone = n < 2 or pattern != graphs.causal() - graphs.window(0)
        out = ew.attend(x, x, x, pattern, engine=engine)
        assert out.shape == x.shape
        assert not alone or (out == 0).all()
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert gradient.isfinite().all()
    torch.testing.assert_close(ew.attend(x, x, x, graphs.window(0), engine=engine), x)


def test_patterns_bind_at_the_call() -> None:
    x = torch.randn(5, H, D)
    for pattern in (graphs.window(1), graphs.window(1) | graphs.hubs([0]), graphs.random(2)):
        assert ew.attend(x, x, x, pattern).equal(ew.attend(x, x, x, pattern.bind(5)))
    assert ew.aggregate(x, graphs.window(1)).equal(ew.aggregate(x, graphs.window(1).bind(5)))
    cross = ew.attend(x[:2], x, x, graphs.complete())
    torch.testing.assert_close(cross, ew.attend(x, x, x, graphs.complete())[:2])
