"""aggregate, edge_scores, edge_softmax and attention_weights on the rows engine."""

import pytest
import torch

import edgewise as ew
from edgewise import graphs
from edgewise.engines import ENGINES
from edgewise.engines.native import library
from edgewise.layouts import layout_of

pytestmark = pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)

SIZES = {"square": (13, 13, 60), "bipartite": (7, 19, 50), "empty": (5, 4, 0), "hub": (3, 5, 2500)}


def make_graph(targets, sources, edges):
    generator = torch.Generator().manual_seed(3)
    index = torch.stack(
        [torch.randint(n, (edges,), generator=generator) for n in (sources, targets)]
    )
    return graphs.edges(index, (sources, targets))


def random(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("weight", ["", "edge", "head", "batched"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("shape", [(1, 16), (3, 5), (8, 16), (1, 37)])
def test_aggregate_agrees_with_the_reference(size, weight, reduce, shape):
    graph = make_graph(*SIZES[size])
    value = random(2, graph.num_sources, *shape)
    leads = {"edge": (), "head": (), "batched": (2,)}
    given = None
    if weight:
        heads = () if weight == "edge" else shape[:1]
        given = random(*leads[weight], graph.num_edges, *heads, seed=1)
    leaves = [value] if given is None else [value, given]
    results = []
    for engine in ("reference", "rows"):
        out = ew.aggregate(value, graph, weight=given, reduce=reduce, engine=engine)
        loss = (out * random(*out.shape, seed=2).detach()).sum()
        results.append((out, *torch.autograd.grad(loss, leaves)))
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_ties_share_the_gradient_evenly(reduce):
    graph = graphs.edges(torch.tensor([[0, 1, 2, 1], [0, 0, 0, 0]]), (3, 1))
    value = torch.tensor([[1.0, 5.0], [1.0, 5.0], [1.0, 5.0]])[:, None].requires_grad_()
    ew.aggregate(value, graph, reduce=reduce, engine="rows").sum().backward()
    assert value.grad.squeeze().tolist() == [[0.25, 0.25], [0.5, 0.5], [0.25, 0.25]]


def test_a_target_that_reads_nothing_gets_zero_for_every_reduction():
    graph = graphs.edges(torch.tensor([[0], [1]]), (2, 3))
    for reduce in ("sum", "mean", "max", "min"):
        out = ew.aggregate(torch.full((2, 1, 4), -2.0), graph, reduce=reduce, engine="rows")
        assert out[:, 0, 0].tolist() == [0.0, -2.0, 0.0]


@pytest.mark.parametrize("heads", [1, 3, 8, 20])
def test_many_hops_reuse_one_layout(heads):
    """MAGNA's diffusion: the same weights several times, differentiated through all of them."""
    graph = make_graph(13, 13, 60)
    value, weight = random(13, heads, 6), random(60, heads, seed=1)
    results = []
    for engine in ("reference", "rows"):
        z = value
        for _ in range(4):
            z = 0.9 * ew.aggregate(z, graph, weight=weight, engine=engine) + 0.1 * value
        results.append((z, *torch.autograd.grad(z.square().sum(), (value, weight))))
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("heads", [1, 3, 8, 20])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_softmax_agrees_with_the_reference(size, heads, batch):
    graph = make_graph(*SIZES[size])
    scores = (random(*batch, graph.num_edges, heads) * 4).detach()
    if graph.num_edges:
        scores[..., ::3, :] = -torch.inf
        scores[..., graph.target == 0, :] = -torch.inf  # all of a row: zeros, not NaN
    scores.requires_grad_()
    results = []
    for engine in (ENGINES["reference"], ENGINES["rows"]):
        weights = engine.edge_softmax(scores, layout_of(graph, engine.layout))
        grad = torch.autograd.grad((weights * random(*weights.shape, seed=1)).sum(), scores)[0]
        results.append((weights, grad))
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
