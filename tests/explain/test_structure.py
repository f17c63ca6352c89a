"""Trees over weights, combinations of heads and the recovery of hidden edges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

pytest.importorskip("scipy")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
import networkx

from benchmarks.structure import Sentence, dependencies, draw_tree, fit, spanning_tree
from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.app.runs import Run
from edgewise.explain import edge_recovery, record
from edgewise.layers import MultiHeadAttention


def test_the_tree_is_the_maximum_spanning_tree() -> None:
    weights = torch.rand(9, 9, dtype=torch.double) + 0.1
    weights = weights + weights.T
    network = networkx.from_numpy_array(weights.numpy())
    expected = networkx.maximum_spanning_tree(network).edges
    assert spanning_tree(weights) == {(min(pair), max(pair)) for pair in expected}
    assert spanning_tree(torch.ones(1, 1)) == set()


def test_edges_of_a_sentence_are_undirected() -> None:
    assert Sentence(["a", "b", "c"], [1, -1, 1]).edges() == {(0, 1), (1, 2)}


def test_the_head_that_has_the_edges_gets_the_weight() -> None:
    sentence = Sentence(list("abcde"), [1, -1, 1, 4, 1])
    edges = torch.zeros(5, 5)
    for first, second in sentence.edges():
        edges[first, second] = edges[second, first] = 1.0
    noise = torch.rand(5, 5)
    coefficients = fit([torch.stack([noise + noise.T, edges])] * 4, [sentence] * 4)
    assert coefficients[1] > 3 * coefficients[0].abs()


def test_hidden_edges_are_recovered_from_weights() -> None:
    torch.manual_seed(0)
    layer, count = MultiHeadAttention(8, 2), 12
    hidden = graphs.edges(torch.randint(count, (2, 20)), count)
    with record(layer) as recorded:
        layer(torch.randn(count, 8), graphs.complete())
    weights = recorded.layers[0].weights
    matrix = weights.view(count, count, 2)  # targets first
    pairs = torch.stack([hidden.source, hidden.target])
    matrix[pairs[1], pairs[0], 1] += 5.0
    found = edge_recovery(recorded.layers, hidden)
    assert found["MultiHeadAttention/1"] == 1.0
    assert 0 < found["MultiHeadAttention/0"] < 1
    with record(layer) as windowed:
        layer(torch.randn(count, 8), graphs.window(1))
    with pytest.raises(ArgumentError, match="all pairs of 12 nodes"):
        edge_recovery(windowed.layers, hidden)
    for graph in (graphs.edges(torch.empty(2, 0).long(), count), graphs.complete().bind(count)):
        with pytest.raises(ArgumentError, match="with and without an edge"):
            edge_recovery(recorded.layers, graph)


def test_a_picture_tells_recovered_edges_from_wrong_ones() -> None:
    from matplotlib.colors import to_hex

    sentence = Sentence(["A", "$", "c", "d"], [1, -1, 1, 2])
    figure = draw_tree(sentence, {(0, 1), (1, 3), (2, 3)})
    drawn = sorted((to_hex(arc.get_edgecolor()), arc.width) for arc in figure.axes[0].patches)
    blue, grey, red = "#1f6feb", "#8795a8", "#d1495b"
    assert drawn == [*[(blue, 1)] * 4, (grey, 1), (red, 2)]
    assert "2 of 3" in figure.axes[0].get_title()


def test_dependencies_keep_the_trees(run_of: Callable[[str], Run]) -> None:
    run = run_of("tags")
    sentences = [Sentence("the cat sat on".split(), [1, 2, -1, 2])] * 4  # noqa: SIM905
    found = dependencies(run, sentences[:2], sentences[2:])
    assert len(found.trees) == 2
    shared = sum(len(tree & sentences[0].edges()) for tree in found.trees)
    assert found.combined == pytest.approx(shared / 6)
