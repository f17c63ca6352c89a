"""Encodings of places in a graph: against loops, other libraries and the known tables."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import pytest
import torch
from torch import Tensor

from edgewise import Graph, encodings, graphs
from edgewise._utils.errors import ArgumentError
from edgewise.encodings import members
from edgewise.encodings.members import member_sizes
from tests.errors import refused

pytest.importorskip("networkx")


def made(*many: nx.Graph) -> Graph:
    """One packed graph of these, each edge in both directions."""
    return graphs.batch([graphs.from_networkx(nx.Graph(one).to_directed()) for one in many])


def shrikhande() -> nx.Graph:
    found = nx.Graph()
    for i in range(4):
        for j in range(4):
            for down, right in ((0, 1), (1, 0), (1, 1)):
                found.add_edge(4 * i + j, 4 * ((i + down) % 4) + (j + right) % 4)
    return found


def rook() -> nx.Graph:
    return nx.convert_node_labels_to_integers(nx.line_graph(nx.complete_bipartite_graph(4, 4)))


DECALIN = nx.Graph([*((i, i + 1) for i in range(9)), (9, 0), (0, 5)])
BICYCLOPENTYL = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
BICYCLOPENTYL.add_edge(0, 5)
PAIRS = {
    "C6, 2 C3": (nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))),
    "decalin, bicyclopentyl": (DECALIN, BICYCLOPENTYL),
    "CSL(8,2), CSL(8,3)": (nx.circulant_graph(8, [1, 2]), nx.circulant_graph(8, [1, 3])),
    "dodecahedron, Desargues": (nx.dodecahedral_graph(), nx.desargues_graph()),
    "rook, Shrikhande": (rook(), shrikhande()),
}


def of_nodes(code: Tensor, sizes: list[int]) -> list[object]:
    """What each graph looks like by the codes of its nodes, in no order."""
    rows = code.double().mul(1e4).round().view(len(code), -1)
    return [sorted(map(tuple, part.tolist())) for part in rows.split(sizes)]


def of_pairs(code: Tensor, sizes: list[int]) -> list[object]:
    """The same by the pairs, a sorted row for each node."""
    rounded = code.double().mul(1e4).round()
    parts = rounded.split([n * n for n in sizes])
    return [
        sorted(sorted(row) for row in part.view(n, n).tolist())
        for part, n in zip(parts, sizes, strict=True)
    ]


LOOKS: dict[str, Callable[[Graph, list[int]], list[object]]] = {
    "WL": lambda graph, sizes: of_nodes(encodings.wl_colors(graph, 20), sizes),
    "paths": lambda graph, sizes: of_pairs(encodings.shortest_paths(graph), sizes),
    "spectrum": lambda graph, sizes: of_nodes(
        encodings.laplacian_spectrum(graph, max(sizes)), [1] * len(sizes)
    ),
    "walks": lambda graph, sizes: of_nodes(encodings.random_walk_probabilities(graph, 20), sizes),
}
SEPARATES = {
    "C6, 2 C3": {"paths", "spectrum", "walks"},
    "decalin, bicyclopentyl": {"paths", "spectrum", "walks"},
    "CSL(8,2), CSL(8,3)": {"spectrum", "walks"},
    "dodecahedron, Desargues": {"spectrum", "walks"},
    "rook, Shrikhande": set(),
}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("look", LOOKS)
def test_which_pairs_an_encoding_tells_apart(pair: str, look: str) -> None:
    graph = made(*PAIRS[pair])
    one, other = LOOKS[look](graph, member_sizes(graph).tolist())
    assert (one != other) == (look in SEPARATES[pair])


SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


def classes(looks: list[object]) -> int:
    return len(set(map(str, looks)))


def test_circulant_graphs_by_encoding() -> None:
    graph = made(*(nx.circulant_graph(41, [1, skip]) for skip in SKIPS))
    sizes = [41] * len(SKIPS)
    paths = of_pairs(encodings.shortest_paths(graph), sizes)
    assert classes(paths) == 9
    assert paths[SKIPS.index(6)] == paths[SKIPS.index(16)]
    assert classes(of_nodes(encodings.wl_colors(graph, 41), sizes)) == 1
    assert classes(of_pairs(encodings.resistance_distances(graph), sizes)) == 10
    assert classes(LOOKS["spectrum"](graph, sizes)) == 10
    counts = [
        classes(of_nodes(encodings.random_walk_probabilities(graph, steps), sizes))
        for steps in (4, 5, 6, 7, 8)
    ]
    assert counts == [3, 5, 6, 9, 10]


def several() -> list[nx.Graph]:
    """A tree, two components, one node, no edge, a repeated eigenvalue."""
    random = nx.gnp_random_graph(9, 0.4, seed=3)
    apart = nx.disjoint_union(nx.path_graph(4), nx.cycle_graph(3))
    return [nx.star_graph(4), apart, nx.empty_graph(1), nx.empty_graph(3), random]


def dense(one: nx.Graph) -> Tensor:
    return torch.from_numpy(nx.to_numpy_array(one))


def test_eigenvectors_solve_their_equation_and_leave_out_components() -> None:
    many, k = several(), 4
    vectors = encodings.laplacian_eigenvectors(made(*many), k)
    values = encodings.laplacian_spectrum(made(*many), k)
    for one, vector, value in zip(many, vectors.split([len(g) for g in many]), values, strict=True):
        laplacian = torch.from_numpy(nx.normalized_laplacian_matrix(one).toarray()).float()
        there = min(k, len(one) - nx.number_connected_components(one))
        torch.testing.assert_close(laplacian @ vector, vector * value, rtol=0, atol=1e-5)
        norms = vector.norm(dim=0)
        torch.testing.assert_close(norms, (torch.arange(k) < there).float())
        assert (value[:there] > 1e-6).all()
        assert (value[there:] == 2).all()


def test_a_large_graph_has_the_same_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    graph = made(nx.random_partition_graph([20, 15, 12], 0.5, 0.05, seed=1))
    vectors, values = (
        encodings.laplacian_eigenvectors(graph, 5),
        encodings.laplacian_spectrum(graph, 5),
    )
    monkeypatch.setattr("edgewise.encodings.laplacian.LARGEST", 10)
    torch.testing.assert_close(encodings.laplacian_spectrum(graph, 5), values)
    others = encodings.laplacian_eigenvectors(graph, 5)
    torch.testing.assert_close(others.abs(), vectors.abs(), rtol=0, atol=1e-4)
    assert others.device == graph.device
    with refused("k", expected="fewer than", got="47", remedy="smaller k"):
        encodings.laplacian_eigenvectors(graph, 47)


def test_walks_are_the_powers_of_the_walk_matrix() -> None:
    many = several()
    code = encodings.random_walk_probabilities(made(*many), 6)
    for one, found in zip(many, code.split([len(g) for g in many]), strict=True):
        step = dense(one) / dense(one).sum(1, keepdim=True).clamp(min=1)
        expected = [torch.linalg.matrix_power(step, t).diagonal() for t in range(1, 7)]
        torch.testing.assert_close(found, torch.stack(expected, dim=1).float())


NODE_CODES: dict[str, Callable[[Graph], Tensor]] = {
    "eigenvectors": lambda graph: encodings.laplacian_eigenvectors(graph, 4).abs(),
    "walks": lambda graph: encodings.random_walk_probabilities(graph, 6),
    "colours": lambda graph: encodings.wl_colors(graph, 3),
    "degrees": encodings.degrees,
}
PAIR_CODES = {"steps": encodings.shortest_paths, "resistances": encodings.resistance_distances}


@pytest.mark.parametrize("name", [*NODE_CODES, *PAIR_CODES])
def test_codes_follow_the_nodes_into_another_order(name: str) -> None:
    """Eigenvectors but for their signs, which are free."""
    torch.manual_seed(0)
    graph, order = made(nx.gnp_random_graph(9, 0.4, seed=3)), torch.randperm(9)
    renumbered = graphs.edges(order[graph.edge_index], 9)
    if name in NODE_CODES:
        code, other = (NODE_CODES[name](one) for one in (graph, renumbered))
        moved = other[order]
    else:
        code, other = (PAIR_CODES[name](one).view(9, 9) for one in (graph, renumbered))
        moved = other[order][:, order]
    assert not torch.equal(other, code)
    torch.testing.assert_close(moved, code)


def test_steps_of_a_large_graph_in_one_direction() -> None:
    """Too large for products of dense matrices."""
    many = nx.gnm_random_graph(300, 900, seed=0, directed=True)
    graph = graphs.edges(torch.tensor(list(many.edges)).T, 300)
    steps = encodings.shortest_paths(graph).view(300, 300)
    lengths = dict(nx.all_pairs_shortest_path_length(many))
    expected = [[lengths[source].get(target, -1) for source in range(300)] for target in range(300)]
    assert steps.tolist() == expected
    assert (steps == -1).any()


def test_steps_and_the_edges_on_the_way() -> None:
    many = several()
    graph = made(*many)
    steps, paths = encodings.shortest_paths(graph), encodings.path_edges(graph, 3)
    pair = first = 0
    for one in many:
        lengths = dict(nx.all_pairs_shortest_path_length(one))
        for target in range(len(one)):
            for source in range(len(one)):
                expected = lengths[source].get(target, -1)
                assert steps[pair] == expected
                way = paths[pair]
                assert (way >= 0).sum() == max(0, min(expected, 3))
                at = first + target
                for edge in way[way >= 0].tolist():
                    assert graph.target[edge] == at
                    at = int(graph.source[edge])
                if 0 <= expected <= 3:
                    assert at == first + source
                pair += 1
        first += len(one)


def test_distances_follow_the_direction_of_messages() -> None:
    path = graphs.edges(torch.tensor([[0, 1], [1, 2]]), 3)  # 2 reads 1 reads 0
    steps = encodings.shortest_paths(path).view(3, 3)
    assert steps.tolist() == [[0, -1, -1], [1, 0, -1], [2, 1, 0]]
    with refused("graph", expected="undirected", got="one direction", remedy="transpose"):
        encodings.laplacian_eigenvectors(path, 1)
    with refused("graph", expected="undirected", got="one direction", remedy="transpose"):
        encodings.resistance_distances(path)


def test_resistances_in_series_and_in_parallel() -> None:
    graph = made(nx.path_graph(4), nx.cycle_graph(4), nx.empty_graph(2))
    series, ring, apart = encodings.resistance_distances(graph).split([16, 16, 4])
    expected = (torch.arange(4)[:, None] - torch.arange(4)).abs().float()
    torch.testing.assert_close(series.view(4, 4), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(ring[2], torch.tensor(1.0))  # 2 ohms beside 2 ohms
    assert apart.tolist() == [0, torch.inf, torch.inf, 0]


def test_colours_are_exact_and_shared_by_all_members() -> None:
    star, path = nx.star_graph(3), nx.path_graph(4)
    colors = encodings.wl_colors(made(star, path, star), 5)
    one, other, again = colors.split(4)
    assert one.tolist() == again.tolist()
    assert len(set(one.tolist())) == 2
    assert len(set(other.tolist())) == 2
    assert not set(other.tolist()) & {int(one[0])}
    begun = encodings.wl_colors(made(star), 5, initial=torch.tensor([0, 5, 5, 7]))
    assert len(set(begun.tolist())) == 3
    assert encodings.wl_colors(made(star, path), 0).tolist() == [0] * 8


def test_distance_encoding_of_a_link() -> None:
    code = encodings.distance_encoding(made(nx.path_graph(5)), torch.tensor([0, 1]), 2, walk=1)
    assert code[:, :4].tolist() == [
        [1, 1, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 2]
    ]  # fmt: skip
    torch.testing.assert_close(code[:, 4], torch.tensor([1, 0.5, 0.5, 0, 0]))
    again = encodings.distance_encoding(made(nx.path_graph(5)), torch.tensor([1, 0, 1]), 2, walk=1)
    assert torch.equal(again, code), "a node counts once"


def test_members_of_one_size_come_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = made(*several(), *several())
    expected = encodings.shortest_paths(graph)
    monkeypatch.setattr(members, "AT_ONCE", 1)
    assert torch.equal(encodings.shortest_paths(graph), expected)
    monkeypatch.setattr(members, "LARGEST", 4)
    with refused("graph", expected="at most 4 nodes", got="9", remedy="without pairs"):
        encodings.shortest_paths(graph)


@pytest.mark.parametrize("name", encodings.OF_NODES)
def test_codes_are_added_to_nodes(name: str) -> None:
    torch.manual_seed(0)
    encoding, graph = encodings.OF_NODES[name](8).eval(), made(*several())
    x = torch.zeros(graph.num_targets, 8)
    out = encoding(x, encoding.code(graph))
    assert out.shape == x.shape
    assert out.isfinite().all()
    assert out.std() > 0
    empty = graphs.batch([])
    assert encoding(x[:0], encoding.code(empty)).shape == (0, 8)


def test_signs_are_drawn_in_training_or_make_no_difference() -> None:
    torch.manual_seed(0)
    graph = made(nx.gnp_random_graph(9, 0.5, seed=0))
    x = torch.zeros(9, 8)
    drawn = encodings.Laplacian(8, 3)
    code = drawn.code(graph)
    assert len({str(drawn(x, code).tolist()) for _ in range(30)}) == 8
    invariant = encodings.SignInvariant(8, 3)
    flipped = code * torch.tensor([1, -1, -1])
    torch.testing.assert_close(invariant(x, flipped), invariant(x, code))
    assert (drawn.eval()(x, flipped) - drawn(x, code)).abs().max() > 1e-3


def test_distance_codes_count_the_nodes_at_each_distance() -> None:
    alone = [nx.cycle_graph(6), nx.path_graph(4), nx.disjoint_union(*[nx.cycle_graph(3)] * 2)]
    found = encodings.DistanceEncoding(8, 2).code(made(*alone))
    expected = []
    for graph in alone:
        for node in graph:
            lengths = nx.single_source_shortest_path_length(graph, node)
            near = [sum(length == d for length in lengths.values()) for d in (0, 1, 2)]
            expected.append([*near[1:], len(graph) - sum(near)])
    assert found.tolist() == expected


def test_random_features_differ_in_every_call() -> None:
    encoding, x = encodings.RandomFeatures(8), torch.zeros(3, 8)
    assert (encoding(x) != encoding(x)).any()


def test_members_have_as_many_targets_as_sources() -> None:
    sizes = torch.tensor([2, 3]), torch.tensor([3, 2])
    graph = graphs.Edges(torch.tensor([[0, 3], [0, 4]]), 5, 5, sizes)
    with pytest.raises(ArgumentError, match="as many targets as sources"):
        encodings.laplacian_eigenvectors(graph, 2)


def test_every_graph_has_its_own_part_of_a_set() -> None:
    alone = [nx.path_graph(5), nx.cycle_graph(4), nx.star_graph(4), nx.empty_graph(2)]
    parts = [torch.tensor(x, dtype=torch.long) for x in ([0, 3], [2], [], [1, 1])]
    first = [0, 5, 9, 14]
    together = torch.cat([part + at for part, at in zip(parts, first, strict=True)])
    code = encodings.distance_encoding(made(*alone), together, 2, walk=3)
    for graph, part, own in zip(alone, parts, code.split([5, 4, 5, 2]), strict=True):
        if len(part):
            expected = encodings.distance_encoding(made(graph), part, 2, walk=3)
            torch.testing.assert_close(own, expected)
        else:
            assert not own.any()


@pytest.mark.parametrize(
    ("nodes", "got"),
    [
        (torch.tensor([0, 5]), "from 0 to 5"),
        (torch.tensor([-1]), "from -1 to -1"),
        (torch.tensor([], dtype=torch.long), "[0]"),
        (torch.tensor([0.0]), "float32"),
        (torch.tensor(0), "int64"),
    ],
    ids=["above", "below", "none", "no numbers of nodes", "no set"],
)
def test_a_set_is_of_the_graphs_own_nodes(nodes: Tensor, got: str) -> None:
    with refused(
        "nodes", expected="from 0 to 4", got=got, remedy="torch.tensor([0, 1]) for a link"
    ):
        encodings.distance_encoding(made(nx.path_graph(5)), nodes)


def test_a_pattern_without_a_size_has_no_codes() -> None:
    with refused("graph", expected="a graph", got="complete()", remedy="bind"):
        encodings.random_walk_probabilities(graphs.complete(), 3)  # type: ignore[arg-type]
