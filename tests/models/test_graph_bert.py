"""Graph-BERT against its formula, node by node; a node sees its list and no links."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from edgewise import encodings, graphs, models
from edgewise._utils.errors import ArgumentError


@pytest.fixture
def club() -> tuple[nx.Graph, graphs.Graph]:
    """Zachary's karate club, and two people whom nobody knows but each other."""
    found = nx.karate_club_graph()
    found.add_edge(34, 35)
    pairs = torch.tensor(list(found.edges)).T
    return found, graphs.edges(torch.cat([pairs, pairs.flip(0)], dim=1), len(found))


def lists(near: encodings.Intimates) -> list[tuple[list[int], list[int]]]:
    sizes = near.sizes.tolist()
    parts = zip(near.nodes.split(sizes), near.hops.split(sizes), strict=True)
    return [(nodes.tolist(), hops.tolist()) for nodes, hops in parts]


def test_intimate_nodes_are_those_of_personalised_pagerank(
    club: tuple[nx.Graph, graphs.Graph],
) -> None:
    known, graph = club
    for i, (nodes, hops) in enumerate(lists(encodings.intimate_nodes(graph, 7))):
        rank = nx.pagerank(
            known, 0.85, personalization={i: 1}, weight=None, max_iter=500, tol=1e-12
        )
        steps = nx.single_source_shortest_path_length(known, i)
        others = {node: share for node, share in rank.items() if node != i and node in steps}
        assert nodes[0] == i
        assert len(nodes) == min(8, 1 + len(others))
        found = [others[node] for node in nodes[1:]]
        assert found == pytest.approx(sorted(others.values(), reverse=True)[:7], abs=1e-9)
        assert hops == [steps[node] for node in nodes]


def test_each_member_of_a_batch_has_its_own_lists(club: tuple[nx.Graph, graphs.Graph]) -> None:
    _, graph = club
    ring = graphs.window(1).bind(5).without_self_loops()
    together = lists(encodings.intimate_nodes(graphs.batch([ring, graph]), 3))
    alone = lists(encodings.intimate_nodes(ring, 3))
    alone += [
        ([node + 5 for node in nodes], hops)
        for nodes, hops in lists(encodings.intimate_nodes(graph, 3))
    ]
    assert together == alone


def test_it_is_its_formula(club: tuple[nx.Graph, graphs.Graph]) -> None:
    """The list of a node as a graph of its own, and only what the list says about it."""
    _, graph = club
    torch.manual_seed(0)
    x = torch.randn(36, 5, dtype=torch.double)
    model = models.graph_bert(5, 3, num_neighbours=4, width=8).double().eval()
    found, colors = model(x, graph), encodings.wl_colors(graph, 2)
    matrix = graph.dense().double() + torch.eye(36, dtype=torch.double)
    means = matrix @ x / matrix.sum(1, keepdim=True)
    bias = model.residual.bias
    for i, (nodes, hops) in enumerate(lists(encodings.intimate_nodes(graph, 4))):
        places = colors[nodes], torch.arange(len(nodes)), torch.tensor(hops)
        h = x[nodes] @ model.embed.weight.T + model.embed.bias
        h = model.norm(h + sum(encodings.sinusoidal_positions(p, 8) for p in places))
        for layer in model.layers:
            h = layer(h, graphs.complete()) + means[i] @ model.residual.weight.T + bias
        torch.testing.assert_close(found[i], model.head(h.mean(0)))


@pytest.mark.parametrize(("raw", "reads"), [("graph", True), ("node", False), ("none", False)])
def test_links_are_read_by_the_residual_alone(
    raw: str, reads: bool, club: tuple[nx.Graph, graphs.Graph]
) -> None:
    _, graph = club
    torch.manual_seed(0)
    x = torch.randn(36, 5, dtype=torch.double, requires_grad=True)
    model = models.graph_bert(5, 3, num_neighbours=2, raw=raw).double().eval()
    model(x, graph)[0].sum().backward()
    listed = set(lists(encodings.intimate_nodes(graph, 2))[0][0])
    linked = set(graph.source[graph.target == 0].tolist())
    assert not linked <= listed
    seen = set((x.grad != 0).any(1).nonzero()[:, 0].tolist())
    assert seen == (listed | linked if reads else listed)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1])
def test_a_walk_that_never_or_always_turns_back_is_refused(
    club: tuple[nx.Graph, graphs.Graph], alpha: float
) -> None:
    with pytest.raises(ArgumentError, match="`alpha`"):
        encodings.intimate_nodes(club[1], 3, alpha)
