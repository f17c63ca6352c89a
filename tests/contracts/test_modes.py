"""Every listed model is the same after it was met in a mode of PyTorch, and has shapes on meta."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import encodings, graphs, models
from edgewise.attention.biases import EdgeTerm, TableBias
from edgewise.encodings.relative import by_offset
from edgewise.graphs import Graph
from edgewise.graphs.graph import bound_graphs
from tests.contracts import test_models, test_text_models
from tests.contracts.test_models import on_distinct_edges
from tests.encodings.test_drawing import ARGUMENTS
from tests.errors import case

EVERY = [*test_models.SIMPLE, *test_text_models.EVERY]


def small(name: str) -> nn.Module:
    if name in test_text_models.EVERY:
        return test_text_models.small(name)
    return test_models.small(name)


def example(name: str) -> tuple[Any, ...]:
    if name not in test_text_models.EVERY:
        return test_models.example(name)
    ids, _ = test_text_models.padded()
    return (ids, None, ids.flip(0)) if name in models.ENCODER_DECODER_MODELS else (ids,)


def call(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    if name in test_text_models.EVERY:
        out: Tensor = model(*inputs)
        return out
    return test_models.call(name, model, inputs)


def gradients(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> list[Tensor]:
    used = [p for p in model.parameters() if p.requires_grad]
    torch.manual_seed(2)
    out = call(name, model, inputs).square().sum()
    found = torch.autograd.grad(out, used, allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


ENGINES = ("reference", "dense", "rows", "tiles")


@pytest.fixture(autouse=True)
def _forget_bound_graphs() -> Iterator[None]:
    """Start with an empty cache, so that the first use is the one in the test."""
    bound_graphs.cache_clear()
    yield
    bound_graphs.cache_clear()


def inference_tensors(thing: Any) -> list[str]:
    """Return the paths of all inference tensors reachable from an object."""
    found, seen, todo = [], set(), [("", thing)]
    while todo:
        path, item = todo.pop()
        if id(item) in seen or isinstance(item, (int, float, str, type)):
            continue
        seen.add(id(item))
        if isinstance(item, Tensor):
            found += [path] if item.is_inference() else []
        elif isinstance(item, dict):
            todo += [(f"{path}[{key}]", value) for key, value in item.items()]
        elif isinstance(item, (list, tuple)):
            todo += [(f"{path}[{number}]", value) for number, value in enumerate(item)]
        elif hasattr(item, "__dict__"):
            todo += [(f"{path}.{key}", value) for key, value in vars(item).items()]
    return found


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", EVERY)
def test_a_model_evaluated_in_inference_mode_trains_afterwards(name: str) -> None:
    """By the engines that may be chosen; the patterns below are tested on every engine."""
    expected = gradients(name, small(name), on_distinct_edges(example(name)))
    bound_graphs.cache_clear()
    model, inputs = small(name), on_distinct_edges(example(name))
    with torch.inference_mode():
        call(name, model, inputs)
    assert not inference_tensors([model, inputs, bound_graphs])
    for mine, other in zip(gradients(name, model, inputs), expected, strict=True):
        torch.testing.assert_close(mine, other)


PATTERNS: dict[str, Callable[[], Graph]] = {
    "batch": lambda: graphs.batch(graphs.causal(), [2, 4]),
    "blocks": lambda: graphs.blocks(2).bind(6),
    "causal": lambda: graphs.causal().bind(6),
    "complete": lambda: graphs.complete().bind(6),
    "difference": lambda: (graphs.complete() - graphs.random(2)).bind(6),
    "edges": lambda: graphs.edges(torch.tensor([[0, 1, 3], [1, 2, 2]]), 6),
    "empty": lambda: graphs.empty().bind(6),
    "expand": lambda: graphs.expand(graphs.random(1), 2).bind(6),
    "expander": lambda: graphs.expander(2).bind(6),
    "from_dense": lambda: graphs.from_dense(torch.ones(6, 6).tril() > 0),
    "grid": lambda: graphs.grid(2, 3).bind(6),
    "hubs": lambda: graphs.hubs([0]).bind(6),
    "incidence": lambda: graphs.incidence(graphs.random(2).bind(6)),
    "given edges": lambda: graphs.Edges(torch.tensor([[0, 1, 3], [1, 2, 2]]), 6, 6),
    "given intervals": lambda: graphs.Intervals(torch.zeros(6).long(), torch.arange(6), 6),
    "given runs": lambda: graphs.Runs(
        torch.tensor([0, 0, 2]), torch.tensor([0, 4, 1]), torch.tensor([2, 6, 3]), 6, 6
    ),
    "intersection": lambda: (graphs.causal() & graphs.window(2)).bind(6),
    "membership": lambda: graphs.membership(torch.tensor([2, 4])),
    "permuted": lambda: graphs.Permuted(
        graphs.causal().bind(6), torch.arange(6).flip(0), torch.arange(6)
    ),
    "power": lambda: graphs.window(1).bind(6).power(2),
    "random": lambda: graphs.random(2).bind(6),
    "subgraphs": lambda: graphs.subgraphs(graphs.window(1), [[0, 1], [2, 3, 4]]).bind(8),
    "transpose": lambda: graphs.causal().bind(6).transpose(),
    "tree": lambda: graphs.tree([-1, 0, 0, 1, 1, 2]).bind(6),
    "union": lambda: (graphs.window(1) | graphs.hubs([0])).bind(6),
    "virtual": lambda: graphs.virtual(graphs.random(2)).bind(6),
    "window": lambda: graphs.window(1).bind(6),
}


def test_every_pattern_is_tested() -> None:
    assert graphs.PATTERNS.keys() <= PATTERNS.keys()


def attend_with_everything(graph: Graph, leaves: list[Tensor], engine: str) -> Tensor:
    """Attend plainly, with a table bias by target, and with a bias by offset."""
    query, key, table, distances = leaves
    total = torch.zeros((), dtype=query.dtype)
    by_target = TableBias(graph.edge_index[1], table)
    biases: list[EdgeTerm | None] = [None, by_target]
    biases.append(by_offset(graph, "distance", lambda behind: behind.abs(), distances))
    with ew.using_engine(engine):
        for bias in biases:
            try:
                out = ew.attend(query, key, key, graph, bias=bias)
            except ew.ArgumentError:
                if engine == "reference":
                    raise
                continue
            total = total + out.square().sum()
    return total


def leaves_of(graph: Graph) -> list[Tensor]:
    torch.manual_seed(3)
    longest = max(graph.num_targets, graph.num_sources)
    sizes = [(graph.num_targets, 2, 4), (graph.num_sources, 2, 4)]
    sizes += [(graph.num_targets, 2), (longest, 2)]  # type: ignore[list-item]
    return [torch.randn(size, dtype=torch.double, requires_grad=True) for size in sizes]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_used_in_inference_mode_trains_afterwards(name: str) -> None:
    for engine in ENGINES:
        for made_inside in (False, True):
            with case(f"{engine}, {made_inside=}"):
                check_pattern(name, engine, made_inside)


def check_pattern(name: str, engine: str, made_inside: bool) -> None:
    bound_graphs.cache_clear()
    graph = PATTERNS[name]()
    leaves = leaves_of(graph)
    attend_with_everything(graph, leaves, engine)
    expected = gradients_of(graph, leaves, engine)
    bound_graphs.cache_clear()
    graph = graph if made_inside else PATTERNS[name]()
    with torch.inference_mode():
        if made_inside:
            graph = PATTERNS[name]()
        attend_with_everything(graph, leaves, engine)
        edge_index, source = graph.edge_index, graph.source
        views = graph.transpose(), graph.with_self_loops() if name in SQUARE else None
        degrees = graph.in_degree(), graph.out_degree(), graph.dense()
    assert not inference_tensors([graph, bound_graphs, edge_index, source, views, degrees])
    for mine, other in zip(gradients_of(graph, leaves, engine), expected, strict=True):
        torch.testing.assert_close(mine, other)


SQUARE = PATTERNS.keys() - {"incidence", "membership"}


def gradients_of(graph: Graph, leaves: list[Tensor], engine: str) -> list[Tensor]:
    total = attend_with_everything(graph, leaves, engine)
    found = torch.autograd.grad(total, leaves, allow_unused=True) if total.requires_grad else []
    return [gradient for gradient in found if gradient is not None]


def encoded(encoding: nn.Module, graph: Graph, x: Tensor) -> list[Tensor]:
    """Return what an encoding adds to features, queries, or the edges of a graph."""
    if isinstance(encoding, tuple(encodings.OF_PAIRS.values())):
        terms = encoding(encoding.code(graph))
    elif isinstance(encoding, tuple(encodings.OF_NODES.values())):
        return [encoding(x, encoding.code(graph))]
    elif isinstance(encoding, tuple(encodings.RELATIVE.values())):
        terms = encoding(graph)
    elif isinstance(encoding, tuple(encodings.TURNED.values())):
        return [encoding(x[:, None])]
    else:
        return [encoding(x)]
    return [term if isinstance(term, Tensor) else term.expand() for term in terms.values()]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("made_inside", [False, True])
@pytest.mark.parametrize("name", encodings.ENCODINGS)
def test_an_encoding_used_in_inference_mode_trains_afterwards(name: str, made_inside: bool) -> None:
    def make_graph() -> Graph:
        return graphs.grid(3, 4).with_self_loops().bind(12)

    def trained(encoding: nn.Module, graph: Graph) -> list[Tensor]:
        x = torch.linspace(-1, 1, 96).view(12, 8).requires_grad_()
        torch.manual_seed(3)
        found = encoded(encoding, graph, x)
        total = sum((y * torch.randn(y.shape)).sum() for y in found)
        assert isinstance(total, Tensor)
        wanted = [x, *encoding.parameters()]
        gradients = torch.autograd.grad(total, wanted, allow_unused=True)
        return [gradient for gradient in gradients if gradient is not None]

    def make() -> nn.Module:
        torch.manual_seed(0)
        return encodings.ENCODINGS[name](*ARGUMENTS[name])

    needs_gradient = name != "alibi"  # has no parameter, and adds to the scores alone
    expected = trained(make(), make_graph()) if needs_gradient else []
    bound_graphs.cache_clear()
    encoding, graph = make(), make_graph()
    with torch.inference_mode():
        if made_inside:
            graph = make_graph()
        encoded(encoding, graph, torch.zeros(12, 8))
    assert not inference_tensors([encoding, graph, bound_graphs])
    if needs_gradient:
        for mine, other in zip(trained(encoding, graph), expected, strict=True):
            torch.testing.assert_close(mine, other)


PACKED = (
    "esa",
    "exphormer",
    "fully_adjacent",
    "gated_gcn",
    "gps",
    "graph_bert",
    "graphormer",
    "grit",
    "laplacian_transformer",
    "polynormer",
    "san",
    "token_gt",
    *models.TREE_MODELS,
)
READS_NUMBERS = {
    "relational_transformer": "which cells a row has",
    "pinsage": "where its walks lead",
    "reformer": "which bucket a token is in",
    **dict.fromkeys(PACKED, "which nodes make up a graph"),
    **dict.fromkeys(test_text_models.RECURRENT, "which tokens are padding"),
}
"""Models whose shapes depend on numbers, which meta tensors do not have."""


def on_meta(given: Any) -> Any:
    return given.detach().to("meta") if isinstance(given, Tensor) else given


@pytest.mark.slow(every=19)
@pytest.mark.parametrize("name", [name for name in EVERY if name not in READS_NUMBERS])
def test_a_model_on_meta_gives_shapes(name: str) -> None:
    expected = call(name, small(name), example(name))
    with torch.device("meta"):
        model = small(name)
    inputs = tuple(map(on_meta, example(name)))
    out = call(name, model, inputs)
    assert out.is_meta
    assert out.shape == expected.shape
    out.square().sum().backward()
