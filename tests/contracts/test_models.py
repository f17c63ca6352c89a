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
from tests.errors import case, refused
from tests.layers.test_sparse import sparse

IN, EDGE, OUT, WIDTH, IMAGE, CHANNELS = 6, 3, 4, 8, 8, 2
NODES, USERS = 7, 3
FIRST = 3  # nodes of the first of two graphs
OF_TEXT = {**models.TEXT_MODELS, **models.ENCODER_DECODER_MODELS}
SIMPLE = [name for name in models.MODELS if name not in OF_TEXT]
ON_A_GRAPH = [*models.NODE_MODELS, *models.TOKEN_MODELS]
ON_EVERY_GRAPH = [*models.NODE_MODELS, *models.READOUT_MODELS, *models.TREE_MODELS]
WITH_EDGES = [
    name
    for name in ON_EVERY_GRAPH
    if "edge_width" in inspect.signature(models.MODELS[name]).parameters
]


UNDIRECTED = ("laplacian_transformer", "san", "token_gt")
OF_KINDS = ("multi_graph_transformer",)
"""It asks whether features of edges are positive, in any type."""
LAST_EDGES = ("layers.5.edge_output", "layers.5.edge_norm", "layers.5.edge_network")
"""Of its last layer, whose edges nobody reads, as in the paper."""


def small(name: str) -> nn.Module:
    """The model with its defaults, its widths small, in float64 and without dropout."""
    torch.manual_seed(0)
    make = models.MODELS[name]
    if name in (*models.NODE_MODELS, *models.READOUT_MODELS, *models.TREE_MODELS):
        model = make(IN, OUT)
    elif name in models.TOKEN_MODELS:
        model = make(WIDTH, heads=2)
    elif name in (*models.LINK_MODELS, *models.TRIPLE_MODELS):
        model = make(NODES, width=WIDTH)
    elif name in models.RECOMMENDERS:
        model = make(USERS, NODES - USERS, width=WIDTH)
    elif name in models.CAPTION_MODELS:
        model = make(IMAGE, CHANNELS, OUT, NODES, patch=4, width=WIDTH)
    elif name in models.IMAGE_AUTOENCODERS:
        model = make(IMAGE, CHANNELS)
    elif name in models.SERIES_MODELS:
        model = make(NODES, 5, 3, width=WIDTH)
        nn.init.normal_(model.head.weight)  # which begins with zero
    elif name in models.RELATIONAL_MODELS:
        model = make(IN, OUT, 3, 5, width=WIDTH)
    else:
        model = make(IMAGE, CHANNELS, OUT)
    return model.double().eval()


def example(name: str, nodes: int = 7) -> tuple[Any, ...]:
    """Input for one call; a graph with an isolated node, a self-loop and a duplicate edge."""
    torch.manual_seed(1)
    if name in models.IMAGE_MODELS:
        return (torch.randn(3, CHANNELS, IMAGE, IMAGE, dtype=torch.double, requires_grad=True),)
    if name in models.IMAGE_AUTOENCODERS:
        images = torch.randn(3, CHANNELS, IMAGE, IMAGE, dtype=torch.double, requires_grad=True)
        return images, torch.rand(3, (IMAGE // 2) ** 2)
    if name in models.CAPTION_MODELS:
        images = torch.randn(3, CHANNELS, IMAGE, IMAGE, dtype=torch.double, requires_grad=True)
        return images, torch.randint(OUT, (3, NODES))
    if name in models.SERIES_MODELS:
        return (torch.randn(3, NODES, dtype=torch.double, requires_grad=True),)
    if name in models.READOUT_MODELS:  # distinct edges, so that every engine can serve
        x = torch.randn(nodes, IN, dtype=torch.double, requires_grad=True)
        second = torch.arange(nodes) >= FIRST  # of two graphs, which no edge joins
        matrix = random_graph(nodes).dense() & (second[:, None] == second)
        return x, graphs.from_dense(matrix | matrix.T if name in UNDIRECTED else matrix)
    if name in models.TREE_MODELS:  # two of them, the second on FIRST and the nodes after it
        x = torch.randn(nodes, IN, dtype=torch.double, requires_grad=True)
        parents = [-1, 0, 0, -1, 3, 3, 4][:nodes]
        return x, graphs.tree(parents, reads="children").bind(nodes)
    if name in models.RELATIONAL_MODELS:  # 7 cells of 5 rows; the last 3 are of another context
        x = torch.randn(7, IN, dtype=torch.double, requires_grad=True)
        cells = torch.tensor([[0, 1, 2, 2, 0, 1, 1], [0, 1, 4, 3, 0, 2, 2], [0, 0, 1, 2, 3, 3, 4]])
        keys = graphs.edges(torch.tensor([[0, 1, 0, 3], [1, 2, 2, 4]]), 5)
        return x, cells.T, keys
    if name in models.LINK_MODELS:
        return torch.randint(NODES, (2, 5)), random_graph(NODES)
    if name in models.TRIPLE_MODELS:
        questions = torch.stack([torch.randint(NODES, (5,)), torch.zeros(5, dtype=torch.long)])
        return questions, torch.arange(NODES), random_graph(NODES)
    if name in models.RECOMMENDERS:
        chosen = torch.tensor([[0, 0, 1, 2, 2, 2], [3, 4, 4, 4, 5, 5]])  # and one item by nobody
        graph = graphs.edges(torch.cat([chosen, chosen.flip(0)], dim=1), NODES)
        return torch.tensor([2, 0]), torch.arange(NODES - USERS), graph
    width = WIDTH if name in models.TOKEN_MODELS else IN
    x = torch.randn(nodes, width, dtype=torch.double, requires_grad=True)
    return x, random_graph(nodes)


def keywords(name: str, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """What is given by name: two graphs on one node axis."""
    if name in models.READOUT_MODELS or name in models.TREE_MODELS:
        count = len(inputs[0])
        return {"batch": [min(FIRST, count), count - min(FIRST, count)]}
    if name in models.RELATIONAL_MODELS:
        return {"batch": [4, 3]}
    return {}


def call(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    """The output; of nodes and of edges where a model could have either."""
    if name == "edge_transformer":
        return torch.cat([model(*inputs).flatten(), model.states(*inputs)[1].flatten()])
    out: Tensor = model(*inputs, **keywords(name, inputs))
    return out


def leaf(model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    """What gradients are compared of: the features, or the embeddings where there are none."""
    return inputs[0] if inputs[0].requires_grad else model.embedding.weight


def on_distinct_edges(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The input without duplicate edges, so that every engine can serve."""
    return tuple(graphs.from_dense(x.dense()) if isinstance(x, ew.Graph) else x for x in inputs)


def random_graph(nodes: int) -> ew.Graph:
    count = 3 * nodes if nodes > 1 else 0
    pairs = torch.randint(max(nodes - 1, 1), (2, count))
    loops = torch.zeros(2, 1 if nodes else 0, dtype=torch.long)
    return graphs.edges(torch.cat([pairs, pairs[:, :1], loops], dim=1), nodes)


@pytest.mark.parametrize("name", SIMPLE)
def test_forward_and_backward_are_finite_and_reach_every_weight(name: str) -> None:
    model, inputs = small(name), example(name)
    out = call(name, model, inputs)
    assert out.isfinite().all()
    out.square().sum().backward()
    assert leaf(model, inputs).grad.isfinite().all()
    for weight, parameter in model.named_parameters():
        if name == "laplacian_transformer" and weight.startswith(LAST_EDGES):
            continue
        assert parameter.grad is not None, weight
        assert parameter.grad.isfinite().all(), weight


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", [*models.NODE_MODELS, *models.READOUT_MODELS])
def test_sparse_features_are_the_dense_ones(name: str) -> None:
    x, graph = example(name)
    x = F.dropout(x.detach(), 0.7)  # zeros that a sparse matrix leaves out, and empty rows
    outs, grads = [], []
    for features in (x, sparse(x)):
        model = small(name)
        outs.append(model(features, graph))
        outs[-1].square().sum().backward()
        grads.append([p.grad for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(outs[1], outs[0])
    most = max(float(grad.abs().max()) for grad in grads[0])  # of a sum in another order
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-7, atol=1e-9 * most)


def test_ones_and_zeros_of_edges_are_not_sparse_as_the_features_are() -> None:
    """PyTorch's ``new_ones`` of a sparse matrix is another whose places nobody has written."""
    for name in WITH_EDGES:
        x, graph = example(name)
        x = F.dropout(x.detach(), 0.7)
        torch.manual_seed(0)
        model = models.MODELS[name](IN, OUT, edge_width=2).double().eval()  # as monet's degrees
        torch.testing.assert_close(model(sparse(x), graph), model(x, graph))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", SIMPLE)
def test_state_dict_round_trip_gives_the_same_output(name: str) -> None:
    model, inputs = small(name), example(name)
    torch.manual_seed(9)
    other = small(name)
    for parameter in other.parameters():
        nn.init.normal_(parameter)
    assert not torch.equal(call(name, other, inputs), call(name, model, inputs))
    other.load_state_dict(model.state_dict())
    assert torch.equal(call(name, other, inputs), call(name, model, inputs))


@pytest.mark.slow(every=2)
@pytest.mark.parametrize("name", SIMPLE)
def test_every_engine_gives_the_reference(name: str) -> None:
    model, inputs = small(name), on_distinct_edges(example(name))
    expected: list[Tensor] = []
    for engine in ("reference", *ew.engines.ENGINES.keys() - {"reference"}):
        try:
            with ew.using_engine(engine):
                out = call(name, model, inputs)
        except ew.ArgumentError:
            # tiles: dot products on runs of sources; readouts: maxima, and vectors on the edges
            if engine != "tiles" and name not in models.READOUT_MODELS:
                raise
            continue
        (grad,) = torch.autograd.grad(out.square().sum(), leaf(model, inputs))
        expected = expected or [out, grad]
        with case(engine):
            torch.testing.assert_close(out, expected[0], rtol=1e-14, atol=1e-12)
            torch.testing.assert_close(grad, expected[1], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_nodes_and_edges_in_another_order_reorder_the_output(name: str) -> None:
    model = small(name)
    x, graph = example(name)
    order, edge_order = torch.randperm(len(x)), torch.randperm(graph.num_edges)
    renumbered = graphs.edges(order.argsort()[graph.edge_index[:, edge_order]], len(x))
    torch.testing.assert_close(
        model(x[order], renumbered), model(x, graph)[order], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("name", WITH_EDGES)
def test_renumbering_the_edges_with_their_features_changes_nothing(name: str) -> None:
    x, graph = example(name)
    model = models.MODELS[name](IN, OUT, edge_width=EDGE).double().eval()
    edge_attr = torch.randn(graph.num_edges, EDGE, dtype=torch.double)
    order = torch.randperm(graph.num_edges)
    renumbered = graphs.edges(graph.edge_index[:, order], len(x))
    out, other = (
        model(x, g, edge_attr=e) for g, e in ((graph, edge_attr), (renumbered, edge_attr[order]))
    )
    torch.testing.assert_close(other, out, rtol=0, atol=1e-12)
    assert not torch.allclose(model(x, renumbered, edge_attr=edge_attr), out)


@pytest.mark.parametrize("name", WITH_EDGES)
def test_features_of_edges_that_do_not_fit_are_refused(name: str) -> None:
    x, graph = example(name)
    model = models.MODELS[name](IN, OUT, edge_width=EDGE).double()
    good = torch.zeros(graph.num_edges, EDGE, dtype=torch.double)
    batched = ("edge_transformer", "graph_network")  # one graph, and features of several of it
    wrongs = good[1:], good[:, 1:], good[:, 0], *(() if name in batched else (good[None],))
    for wrong in wrongs:
        shapes = f"[{graph.num_edges}, {EDGE}]", str(list(wrong.shape))
        with refused("edge_attr", expected=shapes[0], got=shapes[1], remedy="edge_width"):
            model(x, graph, edge_attr=wrong)
    for wrong, came in ((good.tolist(), "list"), (good.to_sparse(), "sparse")):
        with refused("edge_attr", expected="features", got=came, remedy="edge_width"):
            model(x, graph, edge_attr=wrong)
    if name in OF_KINDS:
        return
    with refused("edge_attr", expected="floating point", got="torch.int64", remedy=".float()"):
        model(x, graph, edge_attr=good.long())
    model, x = model.float(), x.detach().float()
    expected, remedy = "torch.float32", ".to(torch.float32)"
    with refused("edge_attr", expected=expected, got="torch.float64", remedy=remedy):
        model(x, graph, edge_attr=good)
    with torch.autocast("cpu", torch.bfloat16):
        with refused("edge_attr", expected=expected, got="torch.float64", remedy=remedy):
            model(x, graph, edge_attr=good)
        model.eval()(x, graph, edge_attr=good.bfloat16())


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", ON_EVERY_GRAPH)
def test_features_of_nodes_that_do_not_fit_are_refused(name: str) -> None:
    model, (x, graph) = small(name), example(name)
    with refused("x", expected=f"[..., {IN}]", got=f"[7, {IN - 1}]", remedy="expected width"):
        model(x[:, 1:], graph)
    if name not in models.TREE_MODELS:
        with refused("x", expected="[..., N, ", got="of shape [", remedy=""):
            model(x[0], graph)
    with refused("x", expected="torch.float64", got="torch.float32", remedy=".to(torch.float32)"):
        model(x.float(), graph)
    for one in (model, model.train()):
        with refused("x", expected="floating point", got="torch.int64", remedy=".float()"):
            one(x.long(), graph)


@pytest.mark.parametrize("name", ["graph_transformer", *OF_KINDS])
def test_weights_and_kinds_of_edges_may_have_another_type(name: str) -> None:
    """Terms of ``attend`` may, and what is only asked whether it is above 0."""
    torch.manual_seed(0)
    width = {"edge_width": 1} if name in OF_KINDS else {}
    model, (x, graph) = models.MODELS[name](IN, OUT, **width).eval(), example(name)
    weight = torch.randint(2, (graph.num_edges, 1))
    expected = model(x.float(), graph, edge_attr=weight.float())
    torch.testing.assert_close(model(x.float(), graph, edge_attr=weight.double()), expected)
    if name in OF_KINDS:  # above 0 is above 0, also where float32 has no number as small
        for other in (weight, weight.bool(), 1e-60 * weight.double()):
            torch.testing.assert_close(model(x.float(), graph, edge_attr=other), expected)


def test_weights_that_are_not_one_float_of_each_edge_are_refused_by_their_name() -> None:
    model, (x, graph) = models.graph_transformer(IN, OUT), example("graph_transformer")
    ones = torch.ones(graph.num_edges)
    for wrong in (ones.long(), ones[1:]):
        with refused("edge_attr", expected="floating", got=str(wrong.dtype), remedy="float()"):
            model(x.float(), graph, edge_attr=wrong)
    for none_of_each, came in (
        (ones.tolist(), "list"),
        (ones.to_sparse(), "sparse"),
        (ones[0], "shape []"),
    ):
        with refused("edge_attr", expected="floating", got=came, remedy="float()"):
            model(x.float(), graph, edge_attr=none_of_each)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", SIMPLE)
def test_mixed_precision_gives_about_the_same(name: str) -> None:
    model, inputs = small(name).float(), example(name)
    inputs = tuple(
        x.detach().float() if isinstance(x, Tensor) and x.is_floating_point() else x for x in inputs
    )
    given = {}
    if name in WITH_EDGES:
        model = models.MODELS[name](IN, OUT, edge_width=EDGE).eval()
        given["edge_attr"] = torch.randn(inputs[1].num_edges, EDGE)
    given |= keywords(name, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(*inputs, **given)
    exact = model(*inputs, **given)
    assert (out - exact).norm() <= 0.1 * exact.norm()
    out.float().sum().backward()


@pytest.mark.parametrize("name", [*ON_EVERY_GRAPH, *models.TOKEN_MODELS])
def test_a_graph_from_some_nodes_to_others_is_refused(name: str) -> None:
    x, _ = example(name)
    graph = graphs.complete().bind(len(x) - 2, len(x))
    with refused("graph", expected="7 targets and 7 sources", got="5 targets", remedy="nodes"):
        small(name)(x, graph)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_graphs_may_be_small(name: str) -> None:
    """Also of no node at all; a graph beside them changes nothing."""
    model = small(name)
    for nodes in (0, 1, 2):
        x, graph = example(name, nodes)
        out = call(name, model, (x, graph))
        alone = model(x, graph, batch=[nodes])
        nobody = model(x[:0], graphs.edges(torch.empty(2, 0).long(), 0), batch=[0])
        torch.testing.assert_close(out, torch.cat([alone, nobody]), rtol=0, atol=1e-12)
        assert out.isfinite().all()


@pytest.mark.parametrize("name", ON_EVERY_GRAPH)
def test_every_graph_model_is_called_alike(name: str) -> None:
    """``model(x, graph, *, edge_attr=None, batch=None)``; edge features are read or refused."""
    signature = inspect.signature(small(name).forward)
    first = list(signature.parameters.values())[:4]
    assert [p.name for p in first] == ["x", "graph", "edge_attr", "batch"]
    assert [p.kind is p.KEYWORD_ONLY for p in first] == [False, False, True, True]
    x, graph = example(name)
    given = {"batch": [3, 4], "edge_attr": torch.rand(graph.num_edges, 2, dtype=torch.double)}
    if name in WITH_EDGES:
        model = models.MODELS[name](IN, OUT, edge_width=2).double().eval()
    elif name == "graph_transformer":  # a weight for each head, or one for all
        given["edge_attr"] = given["edge_attr"][:, :1]
        model = small(name)
    else:
        with refused("edge_attr", expected="None", got="2]", remedy="graph_transformer"):
            small(name)(x, graph, **given)
        return
    out, other = (
        model(x, graph, **given | {"edge_attr": edge_attr})
        for edge_attr in (given["edge_attr"], 0.5 - given["edge_attr"])
    )
    assert not torch.allclose(out, other)


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_no_gradient_from_the_future_on_a_causal_graph(name: str) -> None:
    model = small(name)
    x, _ = example(name)
    out = model(x, graphs.causal())[2]
    (out * torch.randn_like(out)).sum().backward()
    assert (x.grad[3:] == 0).all()
    assert (x.grad[:3] != 0).any()


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_small_graphs_and_no_edges_are_good_input(name: str) -> None:
    """Where nobody reads anybody, every node is as if it were alone."""
    model = small(name)
    for nodes in (0, 1, 2, 5):
        x, graph = example(name, nodes)
        for reads in (graph, graphs.complete()):
            out = model(x, reads)
            assert out.shape[0] == nodes
            assert out.isfinite().all()
        apart = model(x, graphs.empty())
        for i in range(nodes):
            alone = model(x[i : i + 1], graphs.empty())
            torch.testing.assert_close(apart[i : i + 1], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_leading_batch_dimensions_share_the_graph(name: str) -> None:
    model = small(name)
    x, graph = example(name)
    pair = torch.stack([x, x + 1])
    torch.testing.assert_close(model(pair, graph)[1], model(x + 1, graph), rtol=0, atol=1e-12)


def test_the_file_says_what_the_model_is() -> None:
    keys = {"title", "Formula", "Graph", "Score", "Normalisation", "Update", "Paper"}
    for name, make in models.MODELS.items():
        with case(name):
            about = models.about(name)
            assert about.keys() >= keys
            assert make.__name__ == name
            assert inspect.getmodule(make).__name__ == f"edgewise.models.{name}"
            assert re.search(r"\d{4}", about["Paper"]), "the paper has a year"
