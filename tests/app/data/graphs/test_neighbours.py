"""Sampled neighbourhoods: true edges, as many as asked for, every node served, all as likely."""

from __future__ import annotations

import pytest
import torch

from edgewise import aggregate, graphs, models
from edgewise.app.train import LayerwiseOutputs, NeighbourSampler, neighbour_batches
from edgewise.app.train.layerwise import stages_of
from edgewise.app.train.neighbours import from_pyg_loader
from edgewise.layers import symmetric_weight
from edgewise.models import gnn
from tests.errors import refused

NODES = 40
LAYERWISE = [
    *("gcn", "graphsage", "gat", "gatv2", "gin", "gnn", "graph_transformer"),
    *("monet", "magna", "grand", "rgcn", "hgt", "typed_transformer"),
]


def random_graph() -> graphs.Graph:
    """With hubs, isolated nodes, self-loops and duplicates."""
    source, target = torch.randint(NODES, (2, 300))
    return graphs.edges(torch.stack([source, (target * target) // NODES]), NODES)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("fanouts", [[3], [2, 3], [4, -1, 1], [-1, -1]])
def test_edges_are_true_and_as_many_as_asked_for(fanouts):
    graph = random_graph()
    sampler = NeighbourSampler(graph, fanouts)
    seeds = torch.randperm(NODES)[:6]
    part = sampler.sample(seeds, generator())
    assert torch.equal(part.nodes[: part.count], seeds)
    assert len(part.nodes.unique()) == len(part.nodes)
    assert torch.equal(part.nodes[part.graph.edge_index], graph.edge_index[:, part.edge])
    assert len(part.edge.unique()) == len(part.edge), "an edge is drawn at most once"
    whole, drawn = graph.in_degree(), part.graph.in_degree()
    hop = torch.full((NODES,), -1)
    frontier = seeds
    for number, fanout in enumerate(fanouts):
        hop[frontier] = number
        expected = whole[frontier] if fanout < 0 else whole[frontier].clamp(max=fanout)
        place = {node: k for k, node in enumerate(part.nodes.tolist())}
        got = drawn[[place[node] for node in frontier.tolist()]]
        assert torch.equal(got, expected)
        read = torch.isin(graph.target[part.edge], frontier)
        reached = graph.source[part.edge][read].unique()
        frontier = reached[hop[reached] < 0]
    assert int(drawn.sum()) == part.graph.num_edges
    last = torch.tensor([place[node] for node in frontier.tolist()], dtype=torch.long)
    assert (drawn[last] == 0).all(), "the outermost nodes are read only"


def test_all_edges_give_the_output_on_the_whole_graph():
    graph, model = random_graph(), gnn(5, 3, width=4, depth=2).double()
    x = torch.randn(NODES, 5, dtype=torch.double)
    part = NeighbourSampler(graph, [-1, -1]).sample(torch.tensor([7, 0, 31]), generator())
    out = model(x[part.nodes], part.graph)[: part.count]
    torch.testing.assert_close(out, model(x, graph)[[7, 0, 31]], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LAYERWISE)
def test_degrees_are_those_of_the_whole_graph(name):
    """Of GCN, MAGNA, GRAND and MoNet, which divide by them; with self-loops and duplicates."""
    graph, x = random_graph(), torch.randn(NODES, 5)
    model = getattr(models, name)(5, 3).eval()
    steps = sum(stage.reach for stage in stages_of(model))
    part = NeighbourSampler(graph, [-1] * steps).sample(torch.tensor([7, 0, 31]), generator())
    with torch.no_grad():
        out, whole = model(x[part.nodes], part.graph)[: part.count], model(x, graph)
    torch.testing.assert_close(out, whole[[7, 0, 31]], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", LAYERWISE)
@pytest.mark.parametrize("in_file", [False, True])
def test_layer_by_layer_gives_the_outputs_on_the_whole_graph(name, in_file, tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.app.train.layerwise.NUMBERS", 5000)  # Several blocks.
    graph, x = random_graph(), torch.randn(NODES, 5)
    model = getattr(models, name)(5, 3).eval()
    nodes = torch.randperm(NODES)[:11]
    folder = tmp_path if in_file else None
    outputs = LayerwiseOutputs(model, NeighbourSampler(graph, [2, 2]), x.__getitem__, nodes, folder)
    with torch.no_grad():
        torch.testing.assert_close(outputs(nodes), model(x, graph)[nodes], rtol=0, atol=1e-5)
    assert not list(tmp_path.iterdir()), "the file has no name"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("in_file", [False, True])
def test_layer_by_layer_in_other_dtypes(dtype, in_file, tmp_path):
    graph, x, nodes = random_graph(), torch.randn(NODES, 5, dtype=dtype), torch.arange(NODES)
    model = models.graphsage(5, 3).to(dtype).eval()
    sampler = NeighbourSampler(graph, [2, 2])
    outputs = LayerwiseOutputs(model, sampler, x.__getitem__, nodes, tmp_path if in_file else None)(
        nodes
    )
    with torch.no_grad():
        expected = model(x, graph)
    assert outputs.dtype == dtype
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(outputs, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("model", "depth"), [("graphsage", 2), ("hgt", 1)])
def test_blocks_are_limited_by_the_widest_layer(model, depth, monkeypatch):
    """The input has one feature; hgt with one layer has a wide hidden layer between two narrow."""
    monkeypatch.setattr("edgewise.app.train.layerwise.NUMBERS", 1000)
    graph, x = graphs.window(1).bind(200), torch.randn(200, 1)
    network = getattr(models, model)(1, 3, width=64, depth=depth).eval()
    numbers = []
    for module in network.modules():
        module.register_forward_hook(lambda _module, _x, out: numbers.append(out.numel()))
    nodes = torch.arange(200)
    outputs = LayerwiseOutputs(network, NeighbourSampler(graph, [2]), x.__getitem__, nodes)
    outputs(nodes)
    assert 64 * 4 < max(numbers) <= 1000 + 64 * 4, "a node and its sources may exceed the limit"


def test_layer_by_layer_for_no_nodes_and_bad_input():
    graph, x = random_graph(), torch.randn(NODES, 5)
    model, sampler = models.gcn(5, 3, dropout=0.5), NeighbourSampler(graph, [2, 2])
    none, nodes = torch.arange(0), torch.arange(10)

    def outputs_of(nodes: torch.Tensor) -> LayerwiseOutputs:
        return LayerwiseOutputs(model, sampler, x.__getitem__, nodes)

    with refused("model", expected="evaluation", got="training mode", remedy="model.eval()"):
        outputs_of(nodes)
    model.eval()
    with refused("nodes", expected="from 0 to 39", got="40", remedy="this graph"):
        outputs_of(torch.tensor([3, 40]))
    outputs = outputs_of(nodes)
    assert outputs(none).shape == outputs_of(none)(none).shape == (0, 3)
    with refused("nodes", expected="for which", got="node 12", remedy="all nodes"):
        outputs(torch.tensor([3, 12]))
    with refused("nodes", expected="from 0 to 39", got="-1", remedy="this graph"):
        outputs(torch.tensor([-1]))
    model.train()
    with refused("model", expected="evaluation", got="training mode", remedy="model.eval()"):
        outputs(nodes)


def test_sampled_weights_have_the_sum_of_the_whole_graph_as_expectation():
    graph, x = random_graph().without_self_loops(), torch.rand(NODES, 1, dtype=torch.double)
    whole = aggregate(x, graph, weight=symmetric_weight(graph))
    sampler, random, nodes = NeighbourSampler(graph, [3]), generator(), torch.arange(NODES)
    total = torch.zeros_like(whole)
    for _ in range(100):
        part = sampler.sample(nodes, random).graph
        total += aggregate(x, part, weight=symmetric_weight(part)) / 100
    torch.testing.assert_close(total, whole, rtol=0.2, atol=0.05)


@pytest.mark.slow
def test_every_subset_is_as_likely():
    star = graphs.edges(torch.stack([torch.arange(1, 6), torch.zeros(5, dtype=torch.long)]), 6)
    sampler, random = NeighbourSampler(star, [2]), generator()
    drawn = [
        tuple(sampler.sample(torch.tensor([0]), random).edge.sort().values.tolist())
        for _ in range(3000)
    ]
    counts = [drawn.count((a, b)) for a in range(5) for b in range(a + 1, 5)]
    assert sum(counts) == 3000
    assert min(counts) > 240, "10 pairs, about 300 times each"
    assert max(counts) < 360


def test_the_same_draws_from_the_same_generator_and_no_trace_of_the_last():
    graph = random_graph()
    sampler = NeighbourSampler(graph, [2, 2])
    first = sampler.sample(torch.tensor([3, 9]), generator(1))
    sampler.sample(torch.tensor([9, 4, 5]), generator(2))
    again = sampler.sample(torch.tensor([3, 9]), generator(1))
    assert torch.equal(first.nodes, again.nodes)
    assert torch.equal(first.edge, again.edge)


def test_an_epoch_serves_every_node_once_with_its_own_target():
    graph, x = random_graph(), torch.arange(NODES)[:, None].float()
    target, nodes = torch.arange(NODES) * 10, torch.randperm(NODES)[:25]
    loader = neighbour_batches(NeighbourSampler(graph, [2, 2]), x, target, nodes, size=8, seed=0)
    served = []
    for batch in loader:
        asked = batch.select_outputs(batch.inputs[0])[:, 0].long()
        assert torch.equal(batch.target, asked * 10)
        served += asked.tolist()
    assert len(loader) == 4
    assert sorted(served) == sorted(nodes.tolist())
    loader.set_epoch(1)
    assert served != [int(n) for b in loader for n in b.select_outputs(b.inputs[0])[:, 0]]


def test_seeds_of_other_integer_types_and_samples_after_an_interruption(monkeypatch):
    graph, seeds = random_graph(), torch.tensor([3, 9, 21])
    sampler = NeighbourSampler(graph, [2, 2])
    expected = sampler.sample(seeds, generator()).nodes
    assert torch.equal(sampler.sample(seeds.int(), generator()).nodes, expected)

    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("edgewise.app.train.neighbours.sample_edges", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sampler.sample(torch.arange(20), generator())
    assert torch.equal(sampler.sample(seeds, generator()).nodes, expected)


def test_samples_of_a_typed_graph_have_its_types():
    a, b = torch.randint(10, (2, 40)), torch.randint(10, (2, 30))
    graph = graphs.typed({("x", "a", "y"): a, ("y", "b", "x"): b}, {"x": 10, "y": 10})
    part = NeighbourSampler(graph, [2, 3]).sample(torch.tensor([0, 15]), generator())
    assert torch.equal(part.nodes[part.graph.edge_index], graph.edge_index[:, part.edge])
    assert torch.equal(part.graph.edge_type, graph.edge_type[part.edge])
    assert torch.equal(part.graph.node_type, graph.node_type[part.nodes])


def test_batches_of_pyg_have_the_same_form():
    data = pytest.importorskip("torch_geometric.data")
    part = data.Data(
        x=torch.randn(4, 2), y=torch.arange(4), edge_index=torch.tensor([[2, 3], [0, 1]])
    )
    part.batch_size = 2
    (batch,) = from_pyg_loader([part])
    assert batch.target.tolist() == [0, 1]
    assert torch.equal(batch.select_outputs(batch.inputs[0]), part.x[:2])
    assert torch.equal(batch.inputs[1].edge_index, part.edge_index)


def test_bad_input():
    graph = random_graph()
    for fanouts in ([], [0], [3, -2]):
        with refused("fanouts", expected="above 0, or -1", got=str(fanouts), remedy="[10, 10]"):
            NeighbourSampler(graph, fanouts)
    bipartite = graphs.edges(torch.tensor([[0], [1]]), (2, 3))
    with refused("graph", expected="as many targets", got="3 targets, 2", remedy="both types"):
        NeighbourSampler(bipartite, [2])
    sampler = NeighbourSampler(graph, [2])
    with refused("seeds", expected="from 0 to 39", got="40", remedy="indices of nodes"):
        sampler.sample(torch.tensor([1, 40]), generator())
    with refused("seeds", expected="once", got="3 nodes, 2", remedy="unique"):
        sampler.sample(torch.tensor([1, 4, 1]), generator())
