"""What every listed model must keep, found by its kind; a new model is tested without a word."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import edgewise as ew
from edgewise import graphs, models
from tests.layers.test_dropout import sparse

IN, EDGE, WHOLE, OUT, WIDTH, IMAGE, CHANNELS = 6, 3, 2, 4, 8, 8, 2
NODES, USERS = 7, 3
SIMPLE = [
    name for name in models.MODELS if name not in {**models.TEXT_MODELS, **models.PAIR_MODELS}
]
ON_A_GRAPH = [*models.NODE_MODELS, *models.TOKEN_MODELS]
WITH_EDGES = [*models.EDGE_MODELS, *models.GRAPH_MODELS]


def small(name: str) -> nn.Module:
    """The model with its defaults, its widths small, in float64 and without dropout."""
    torch.manual_seed(0)
    make = models.MODELS[name]
    if name in models.NODE_MODELS or name in models.READOUT_MODELS:
        model = make(IN, OUT)
    elif name in models.EDGE_MODELS:
        model = make(IN, EDGE, OUT)
    elif name in models.GRAPH_MODELS:
        model = make(IN, EDGE, WHOLE, OUT)
    elif name in models.TOKEN_MODELS:
        model = make(WIDTH, heads=2)
    elif name in models.LINK_MODELS:
        model = make(NODES, width=WIDTH)
    elif name in models.RECOMMENDERS:
        model = make(USERS, NODES - USERS, width=WIDTH)
    elif name in models.CAPTION_MODELS:
        model = make(IMAGE, IMAGE, CHANNELS, OUT, NODES, patch=4, width=WIDTH)
    elif name in models.SERIES_MODELS:
        model = make(NODES, 5, 3, width=WIDTH)
        nn.init.normal_(model.head.weight)  # which begins with zero
    else:
        model = make(IMAGE, CHANNELS, OUT)
    return model.double().eval()


def example(name: str, nodes: int = 7) -> tuple[Tensor, ...]:
    """Input for one call; a graph with an isolated node, a self-loop and a duplicate edge."""
    torch.manual_seed(1)
    if name in models.IMAGE_MODELS:
        return (torch.randn(3, CHANNELS, IMAGE, IMAGE, dtype=torch.double, requires_grad=True),)
    if name in models.CAPTION_MODELS:
        images = torch.randn(3, CHANNELS, IMAGE, IMAGE, dtype=torch.double, requires_grad=True)
        return images, torch.randint(OUT, (3, NODES))
    if name in models.SERIES_MODELS:
        return (torch.randn(3, NODES, dtype=torch.double, requires_grad=True),)
    if name in models.READOUT_MODELS:  # two graphs on one node axis, and distinct edges
        x = torch.randn(nodes, IN, dtype=torch.double, requires_grad=True)
        return x, graphs.from_dense(random_graph(nodes).dense()), graphs.membership([3, nodes - 3])
    if name in models.LINK_MODELS:
        return random_graph(NODES), torch.randint(NODES, (2, 5))
    if name in models.RECOMMENDERS:
        chosen = torch.tensor([[0, 0, 1, 2, 2, 2], [3, 4, 4, 4, 5, 5]])  # and one item by nobody
        graph = graphs.edges(torch.cat([chosen, chosen.flip(0)], dim=1), NODES)
        return graph, torch.tensor([2, 0]), torch.arange(NODES - USERS)
    width = WIDTH if name in models.TOKEN_MODELS else IN
    x = torch.randn(nodes, width, dtype=torch.double, requires_grad=True)
    graph = random_graph(nodes)
    edge = torch.randn(graph.num_edges, EDGE, dtype=torch.double)
    if name in models.EDGE_MODELS:
        return x, graph, edge
    if name in models.GRAPH_MODELS:
        return x, graph, edge, torch.randn(1, WHOLE, dtype=torch.double)
    return x, graph


def call(model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    """The output, all parts of it in a row where a model gives several."""
    out = model(*inputs)
    return torch.cat([part.flatten() for part in out]) if isinstance(out, tuple) else out


def leaf(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    """What gradients are compared of: the features, or the embeddings where there are none."""
    return inputs[0] if isinstance(inputs[0], Tensor) else model.embedding.weight


def on_distinct_edges(name: str, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The input without duplicate edges, so that every engine can serve."""
    if name in models.READOUT_MODELS:  # theirs are distinct
        return inputs
    if name in WITH_EDGES:
        x, graph, edge, *whole = inputs
        distinct = graphs.from_dense(graph.dense())
        return x, distinct, edge[: distinct.num_edges], *whole
    return tuple(graphs.from_dense(x.dense()) if isinstance(x, ew.Graph) else x for x in inputs)


def random_graph(nodes: int) -> ew.Graph:
    count = 3 * nodes if nodes > 1 else 0
    pairs = torch.randint(max(nodes - 1, 1), (2, count))
    loops = torch.zeros(2, 1 if nodes else 0, dtype=torch.long)
    return graphs.edges(torch.cat([pairs, pairs[:, :1], loops], dim=1), nodes)


@pytest.mark.parametrize("name", SIMPLE)
def test_forward_and_backward_are_finite_and_reach_every_weight(name: str) -> None:
    model, inputs = small(name), example(name)
    out = call(model, inputs)
    assert out.isfinite().all()
    out.square().sum().backward()
    assert leaf(model, inputs).grad.isfinite().all()
    for weight, parameter in model.named_parameters():
        assert parameter.grad is not None, weight
        assert parameter.grad.isfinite().all(), weight


@pytest.mark.parametrize("name", models.NODE_MODELS)
def test_sparse_features_are_the_dense_ones(name: str) -> None:
    x, graph = example(name)
    x = F.dropout(x.detach(), 0.7)  # zeros that a sparse matrix leaves out, and empty rows
    outs, grads = [], []
    for features in (x, sparse(x)):
        model = small(name)
        outs.append(model(features, graph))
        outs[-1].square().sum().backward()
        grads.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(outs[1], outs[0])
    torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("name", SIMPLE)
def test_state_dict_round_trip_gives_the_same_output(name: str) -> None:
    model, inputs = small(name), example(name)
    torch.manual_seed(9)
    other = small(name)
    for parameter in other.parameters():
        nn.init.normal_(parameter)
    assert not torch.equal(call(other, inputs), call(model, inputs))
    other.load_state_dict(model.state_dict())
    assert torch.equal(call(other, inputs), call(model, inputs))


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("engine", ew.engines.ENGINES)
def test_every_engine_gives_the_reference(name: str, engine: str) -> None:
    model, inputs = small(name), on_distinct_edges(name, example(name))
    outs, grads = [], []
    for chosen in ("reference", engine):
        try:
            with ew.using_engine(chosen):
                outs.append(call(model, inputs))
        except ew.ArgumentError as refusal:
            # tiles: dot products on runs of sources; readouts: maxima, and vectors on the edges
            if engine != "tiles" and name not in models.READOUT_MODELS:
                raise
            pytest.skip(refusal.got)
        grads.append(torch.autograd.grad(outs[-1].square().sum(), leaf(model, inputs))[0])
    torch.testing.assert_close(outs[1], outs[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(grads[1], grads[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_renumbering_the_nodes_renumbers_the_output(name: str) -> None:
    model = small(name)
    x, graph = example(name)
    order = torch.randperm(len(x))
    renumbered = graphs.edges(order.argsort()[graph.edge_index], len(x))
    torch.testing.assert_close(
        model(x[order], renumbered), model(x, graph)[order], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", models.NODE_MODELS)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_sparse_features_give_the_same_as_dense_ones(name: str) -> None:
    model, graph = small(name), random_graph(NODES)
    x = torch.randn(NODES, IN, dtype=torch.double).relu()
    torch.testing.assert_close(model(x.to_sparse_csr(), graph), model(x, graph))


@pytest.mark.parametrize("name", WITH_EDGES)
def test_renumbering_nodes_and_edges_renumbers_the_outputs(name: str) -> None:
    model = small(name)
    x, graph, edge, *whole = example(name)
    order, edge_order = torch.randperm(len(x)), torch.randperm(len(edge))
    index = order.argsort()[graph.edge_index][:, edge_order]
    outs = model(x, graph, edge, *whole)
    renumbered = model(x[order], graphs.edges(index, len(x)), edge[edge_order], *whole)
    for out, other, numbers in zip(outs, renumbered, (order, edge_order, ...), strict=False):
        torch.testing.assert_close(other, out[numbers], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", WITH_EDGES)
@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_edges_and_graphs_may_be_few(name: str, nodes: int) -> None:
    out = call(small(name), example(name, nodes))
    assert out.isfinite().all()


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_no_gradient_from_the_future_on_a_causal_graph(name: str) -> None:
    model = small(name)
    x, _ = example(name)
    out = model(x, graphs.causal())[2]
    (out * torch.randn_like(out)).sum().backward()
    assert (x.grad[3:] == 0).all()
    assert (x.grad[:3] != 0).any()


@pytest.mark.parametrize("name", ON_A_GRAPH)
@pytest.mark.parametrize("nodes", [0, 1, 2, 5])
def test_small_graphs_and_no_edges_are_good_input(name: str, nodes: int) -> None:
    model = small(name)
    x, graph = example(name, nodes)
    for reads in (graph, graphs.empty(), graphs.complete()):
        out = model(x, reads)
        assert out.shape[0] == nodes
        assert out.isfinite().all()


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_leading_batch_dimensions_share_the_graph(name: str) -> None:
    model = small(name)
    x, graph = example(name)
    pair = torch.stack([x, x + 1])
    torch.testing.assert_close(model(pair, graph)[1], model(x + 1, graph), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", models.MODELS)
def test_the_file_says_what_the_model_is(name: str) -> None:
    about = models.about(name)
    assert about.keys() >= {
        "title",
        "Formula",
        "Graph",
        "Score",
        "Normalisation",
        "Update",
        "Paper",
    }
    make = models.MODELS[name]
    assert make.__name__ == name
    assert inspect.getmodule(make).__name__ == f"edgewise.models.{name}"
    assert re.search(r"\d{4}", about["Paper"]), "the paper has a year"
