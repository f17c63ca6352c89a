"""Graph networks: the paper's updates in its order, packed graphs, and what has an output."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from edgewise import graphs
from edgewise.app.train import PackedGraphs
from edgewise.graphs import Intervals
from edgewise.graphs.graph import held_bytes
from edgewise.models import graph_network
from edgewise.models.graph_network import Focus, GraphNetworkBlock, GraphState
from tests.errors import refused


def test_a_graph_network_updates_edges_then_nodes_then_graphs() -> None:
    sizes, width = [2, 3], 3
    index = torch.tensor([[0, 1, 3, 4, 4], [1, 0, 2, 2, 2]])  # graph 1 has a duplicate
    graph, owner = graphs.edges(index, 5), [0, 0, 1, 1, 1]
    block = GraphNetworkBlock(width, reduce="sum").double()
    torch.manual_seed(0)
    x, edge, u = (torch.randn(n, width, dtype=torch.double) for n in (5, 5, 2))
    new_edge = [
        block.edge(torch.cat([edge[e], x[t], x[s], u[owner[t]]]))
        for e, (s, t) in enumerate(index.T.tolist())
    ]
    zero = torch.zeros(width, dtype=torch.double)
    incoming = [sum((new_edge[e] for e in range(5) if index[1, e] == i), zero) for i in range(5)]
    new_x = [block.node(torch.cat([incoming[i], x[i], u[owner[i]]])) for i in range(5)]
    new_u = [
        block.graph(
            torch.cat(
                [
                    sum((new_edge[e] for e in range(5) if owner[index[1, e]] == g), zero),
                    sum((new_x[i] for i in range(5) if owner[i] == g), zero),
                    u[g],
                ]
            )
        )
        for g in range(2)
    ]
    outs = block(GraphState(x, edge, u), graph, graphs.membership(sizes))
    for out, expected in zip(outs, (new_x, new_edge, new_u), strict=True):
        torch.testing.assert_close(out, torch.stack(expected))


def test_a_graph_network_keeps_the_graphs_of_a_batch_apart() -> None:
    model = graph_network(2, 4, edge_width=3, global_width=1, width=8).double()
    parts = []
    for nodes, count in ((3, 4), (2, 1)):
        index = torch.randint(nodes, (2, count))
        shapes = ((nodes, 2), (count, 3), (1, 1))
        parts.append((graphs.edges(index, nodes), [torch.randn(s).double() for s in shapes]))
    alone = [model.states(x, graph, edge_attr=edge, global_attr=u) for graph, (x, edge, u) in parts]
    packed = graphs.batch([graph for graph, _ in parts])
    x, edge, u = (torch.cat([state[i] for _, state in parts]) for i in range(3))
    given = {"edge_attr": edge, "batch": [3, 2], "global_attr": u}
    together = model.states(x, packed, **given)
    for i in range(3):
        torch.testing.assert_close(together[i], torch.cat([state[i] for state in alone]))
    torch.testing.assert_close(model(x, packed, **given), model.decode(together.graphs))


def triangle() -> tuple[torch.Tensor, graphs.Graph]:
    """Features of three nodes, and a ring."""
    torch.manual_seed(1)
    return torch.randn(3, 2).double(), graphs.edges(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3)


@pytest.mark.parametrize("focus", ["nodes", "edges", "graphs"])
def test_focus_says_what_has_an_output(focus: str) -> None:
    (x, graph), model = triangle(), graph_network(2, 4, width=8, focus=focus).double()
    expected = model.decode(getattr(model.states(x, graph), focus))
    assert expected.shape == (1 if focus == "graphs" else 3, 4)
    torch.testing.assert_close(model(x, graph), expected)


def test_without_features_edges_and_graphs_have_ones() -> None:
    (x, graph), model = triangle(), graph_network(2, 4, edge_width=2, width=8).double()
    ones = torch.ones(3, 2).double(), torch.ones(1, 1).double()
    expected = model(x, graph, edge_attr=ones[0], global_attr=ones[1])
    torch.testing.assert_close(model(x, graph), expected)


def test_one_graph_under_several_conditions() -> None:
    """A liquid measured three times is stored once, and packed three times."""
    x, graph = triangle()
    model = graph_network(2, 4, edge_width=2, global_width=1, width=8).double()
    single = torch.randn(1, 2).double()
    edge, u = torch.randn(3, 2).double(), torch.randn(4, 1).double()
    stored = PackedGraphs.of(
        [x, single], [graph.edge_index, torch.empty(2, 0).long()], [edge, edge[:0]]
    )
    nodes, packed, members, edges = replace(stored, shared=False).take(torch.tensor([0, 1, 0, 0]))
    out = model(nodes, packed, edge_attr=edges, batch=members, global_attr=u)
    for row, which in enumerate([0, 1, 0, 0]):
        part = (x, graph, edge) if which == 0 else (single, graphs.empty(), edge[:0])
        alone = model(part[0], part[1], edge_attr=part[2], global_attr=u[row : row + 1])
        torch.testing.assert_close(out[row], alone[0])


@pytest.mark.parametrize("focus", ["graphs", "nodes"])
def test_graphs_that_share_nodes_are_refused(focus: Focus) -> None:
    (x, graph), model = triangle(), graph_network(2, 4, width=8, focus=focus).double()
    members = Intervals(torch.tensor([0, 0]), torch.tensor([3, 3]), 3)
    with refused(
        "batch", expected="each node in exactly one graph", got="several", remedy="shared=False"
    ):
        model(x, graph, batch=members)


def test_an_unknown_focus_suggests_the_nearest() -> None:
    with refused("focus", expected="nodes", got="'node'", remedy="did you mean 'nodes'"):
        graph_network(2, 4, focus="node")


def test_a_batch_of_features_on_one_graph_is_read_as_each_alone() -> None:
    graph = graphs.edges(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), 3)
    model = graph_network(4, 2, edge_width=3, global_width=5).double().eval()
    x, edge_attr, global_attr = (
        torch.randn(2, *shape, dtype=torch.double) for shape in ((3, 4), (4, 3), (1, 5))
    )
    for given in ({}, {"edge_attr": edge_attr[0]}, {"global_attr": global_attr[0]}):
        alone = torch.stack([model(each, graph, **given) for each in x])
        torch.testing.assert_close(model(x, graph, **given), alone)
    alone = torch.stack(
        [
            model(each, graph, edge_attr=edges, global_attr=known)
            for each, edges, known in zip(x, edge_attr, global_attr, strict=True)
        ]
    )
    out = model(x, graph, edge_attr=edge_attr, global_attr=global_attr)
    torch.testing.assert_close(out, alone)


@pytest.mark.parametrize("shape", [(1, 4), (2, 5), (5,)])
def test_what_is_known_of_graphs_has_a_row_for_each(shape: tuple[int, ...]) -> None:
    model = graph_network(4, 2, global_width=5)
    with refused("global_attr", expected="[1, 5]", got=str(list(shape)), remedy="global_width"):
        model(torch.randn(3, 4), graphs.complete(), global_attr=torch.randn(shape))


def test_what_is_known_of_graphs_has_the_type_of_the_weights() -> None:
    x, graph = triangle()
    model, ones = graph_network(2, 4, global_width=5).double(), torch.ones(1, 5)
    with refused("global_attr", expected="torch.float64", got="torch.float32", remedy="float64"):
        model(x, graph, global_attr=ones)
    with refused("global_attr", expected="[..., 5]", got="torch.int64", remedy="integers"):
        model(x, graph, global_attr=ones.long())


def test_calls_with_sizes_store_nothing_more_on_the_graph() -> None:
    model, graph = graph_network(4, 2), graphs.batch(graphs.window(1), [3, 2])
    bytes_held = []
    for _ in range(3):
        model(torch.randn(5, 4), graph, batch=[3, 2])
        bytes_held.append(held_bytes(graph))
    assert bytes_held[0] == bytes_held[2]
