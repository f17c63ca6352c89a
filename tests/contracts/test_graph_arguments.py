"""Where a graph is wanted, what is none is refused in one way, with the line to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import encodings, graphs, layers, models
from edgewise.app.train import NeighbourSampler
from edgewise.layers import symmetric_weight
from edgewise.models.pinsage import walk_neighbours
from tests.contracts.test_models import example, keywords, small
from tests.errors import refused

N, WIDTH = 7, 8
X = torch.randn(N, WIDTH)
IDS = torch.randint(9, (2, N))
EDGE_INDEX = torch.randint(N, (2, 9))
Call = Callable[[Any], Any]


class Data:
    """As PyTorch Geometric's is recognised."""

    edge_index = EDGE_INDEX
    num_nodes = N


class Sparse:
    """As SciPy's matrices are recognised."""

    def tocoo(self) -> None:
        """From any of its formats."""


WRONG: dict[str, tuple[Any, str]] = {
    "edge_index": (EDGE_INDEX, "graphs.edges(edge_index, num_nodes)"),
    "mask": (torch.ones(N, N, dtype=torch.bool), "graphs.from_dense(mask)"),
    "adjacency": (torch.ones(N, N), "graphs.from_dense(matrix != 0)"),
    "pyg": (Data(), "graphs.from_pyg(data)"),
    "scipy": (Sparse(), "graphs.from_scipy(matrix)"),
    "text": ("causal()", "graphs.parse(text)"),
    "class": (graphs.window, "graphs.window(...)"),
    "list": ([(0, 1)], "graphs.edges(edge_index, n)"),
}


def made(name: str, **options: Any) -> nn.Module:
    """A small model; sizes by their names."""
    sizes = {
        "vocab_size": 9,
        "width": WIDTH,
        "heads": 2,
        "image_size": 8,
        "patch": 4,
        "channels": 1,
        "out_width": 3,
        "max_length": N + 2,
        "history": 8,
        "horizon": 2,
        "season": 4,
    }
    takes = inspect.signature(models.MODELS[name]).parameters
    return models.MODELS[name](**{k: v for k, v in sizes.items() if k in takes}, **options).eval()


def stack(graph: Any = graphs.complete()) -> layers.TransformerStack:
    layer = layers.TransformerLayer(WIDTH, 2, 16)
    return layers.TransformerStack([layer], nn.Identity(), graph)


def of_layer(layer: nn.Module) -> Call:
    return lambda graph: layer(X, graph)


HEADS = X.unflatten(-1, (2, 4))
CAUSAL = graphs.causal()
TWICE = {"source": X, "source_graph": CAUSAL}
DECODER = layers.DecoderLayer(WIDTH, 2, 16)
CROSS = layers.CrossBlock(
    layers.MultiHeadAttention(WIDTH, 2),
    layers.MultiHeadAttention(WIDTH, 2, source_width=WIDTH),
    nn.Identity(),
    WIDTH,
)
LAYERS: dict[str, Call] = {
    "AttentionBlock": of_layer(
        layers.AttentionBlock(layers.MultiHeadAttention(WIDTH, 2), nn.Identity(), WIDTH)
    ),
    "CrossBlock": lambda graph: CROSS(X, graph, **TWICE),
    "DecoderLayer": lambda graph: DECODER(X, graph, **TWICE),
    "EncoderDecoderModel": lambda graph: made("transformer")(IDS, None, IDS, graph=graph),
    "GraphSequential": of_layer(layers.GraphSequential(nn.ReLU())),
    "MessagePassing": of_layer(layers.MessagePassing(WIDTH, WIDTH)),
    "MultiHeadAttention": of_layer(layers.MultiHeadAttention(WIDTH, 2)),
    "PooledNodes": of_layer(layers.PooledNodes(models.gcn(WIDTH, 3), "mean")),
    "Backbone": lambda graph: layers.Backbone(stack())(X, graph=graph),
    "Recommender": lambda graph: small("lightgcn")(IDS[0], IDS[0], graph),
    "TextModel": lambda graph: made("gpt")(IDS, graph=graph),
    "TransformerLayer": of_layer(layers.TransformerLayer(WIDTH, 2, 16)),
    "TransformerStack": of_layer(layers.TransformerStack([], nn.Identity(), CAUSAL)),
}


def of_encoding(make: Callable[..., nn.Module]) -> Call:
    needed = [p for p in inspect.signature(make).parameters.values() if p.default is p.empty]
    encoding = make(*[2] * len(needed))
    return encoding


SIZED: dict[str, Call] = {
    "edge_softmax": lambda graph: ew.edge_softmax(torch.ones(9, 2), graph),
    "symmetric_weight": symmetric_weight,
    "walk_neighbours": walk_neighbours,
    "NeighbourSampler": lambda graph: NeighbourSampler(graph, [2]),
    "offsets": encodings.offsets,
    "incidence": graphs.incidence,
    **{name: of_encoding(make) for name, make in encodings.RELATIVE.items()},
}
FUNCTIONS: dict[str, Call] = {
    "attend": lambda graph: ew.attend(HEADS, HEADS, HEADS, graph),
    "attend_with_lse": lambda graph: ew.attend_with_lse(HEADS, HEADS, HEADS, graph),
    "explain_plan": lambda graph: ew.explain_plan(HEADS, HEADS, HEADS, graph),
    "aggregate": lambda graph: ew.aggregate(HEADS, graph),
    "edge_scores": lambda graph: ew.edge_scores(HEADS, HEADS, graph),
    "attention_weights": lambda graph: ew.attention_weights(HEADS, HEADS, graph),
    "union": lambda graph: CAUSAL | graph,
    "batch": lambda graph: graphs.batch([graph]),
    **SIZED,
}


def of_model(name: str) -> Call:
    """A call of the model with something in the place of its graph."""
    model, inputs = small(name), example(name)
    place = next(i for i, given in enumerate(inputs) if isinstance(given, ew.Graph))
    given = keywords(name, inputs)
    return lambda graph: model(*inputs[:place], graph, *inputs[place + 1 :], **given)


def of_text(name: str) -> Call:
    def call(graph: Any) -> Tensor:
        if name in models.ENCODER_DECODER_MODELS:
            return made(name)(IDS, None, IDS, graph=graph)
        return made(name)(IDS, graph=graph)

    return call


ON_A_GRAPH = [
    *models.NODE_MODELS,
    *models.READOUT_MODELS,
    *models.TOKEN_MODELS,
    *models.LINK_MODELS,
    *models.TRIPLE_MODELS,
    *models.RECOMMENDERS,
    *models.RELATIONAL_MODELS,
]
REFUSE_ANY = {
    *("rnn", "lstm", "gru", "reformer", "bp_transformer"),
    *("light_conv", "dynamic_conv", "linformer", "performer"),
}
"""They have a graph of their own."""
OF_TEXT = [n for n in (*models.TEXT_MODELS, *models.ENCODER_DECODER_MODELS) if n not in REFUSE_ANY]
WITH_A_PATTERN = [
    (name, argument)
    for name, model in models.MODELS.items()
    for argument in ("graph", "decoder_graph")
    if argument in inspect.signature(model).parameters
]


def check(call: Call, argument: str = "graph") -> None:
    for thing, remedy in WRONG.values():
        with refused(argument, expected="a graph or a pattern", got="", remedy=remedy):
            call(thing)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    check(FUNCTIONS[name])


@pytest.mark.parametrize("name", SIZED)
def test_functions_of_a_graph_with_sizes_refuse_a_pattern(name: str) -> None:
    with refused("graph", expected="fixed number", got="window(1)", remedy=".bind(num_nodes)"):
        SIZED[name](graphs.window(1))


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    check(LAYERS[name])


def test_every_layer_that_takes_a_graph_is_listed() -> None:
    takes = [
        name
        for name in layers.__all__
        if inspect.isclass(thing := getattr(layers, name))
        and issubclass(thing, nn.Module)
        and "graph" in inspect.signature(thing.forward).parameters
    ]
    # TypedLinear and TypedInput need a typed graph, which tests/models/test_typed.py checks.
    assert sorted(takes) == sorted({*LAYERS, "RecurrentBackbone", "TypedInput", "TypedLinear"})


def test_other_sequences() -> None:
    with refused("graph", expected="a graph or a pattern", got="Tensor", remedy="graphs.edges"):
        DECODER(X, CAUSAL, source=X, source_graph=EDGE_INDEX)
    with refused("graph", expected="a graph or a pattern", got="Tensor", remedy="graphs.edges"):
        made("gpt")(IDS[0], sizes=[3, 4], graph=EDGE_INDEX)


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_models_of_a_graph(name: str) -> None:
    check(of_model(name))


@pytest.mark.slow(every=4)
@pytest.mark.parametrize("name", OF_TEXT)
def test_models_of_text(name: str) -> None:
    check(of_text(name))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize(("name", "argument"), WITH_A_PATTERN)
def test_models_made_with_a_pattern(name: str, argument: str) -> None:
    check(lambda graph: made(name, **{argument: graph}), argument)


def test_a_pattern_of_a_pattern() -> None:
    check(graphs.virtual, "pattern")
    check(lambda graph: graphs.expand(graph, 2), "blocks")
