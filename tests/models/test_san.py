"""Spectral attention, node by node on dense matrices, and its places beside PyTorch's layers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import edgewise as ew
from edgewise import encodings, graphs, models
from edgewise.app.cli.peers import copy_encoder_layer
from edgewise.app.train import PackedGraphs
from edgewise.encodings import RepeatedEigenvalueWarning
from edgewise.models.san import SAN, LearnedSpectrum, SpectralAttention
from tests.errors import refused

IN, WIDTH, HEADS, EDGE, K = 5, 8, 2, 3, 4
PARTS = {
    "two triangles": (6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]),
    "one node": (1, []),
    "no edges": (3, []),
    "a path with a loop": (5, [(0, 1), (1, 2), (2, 3), (3, 4), (2, 2)]),
    "complete": (3, [(0, 1), (1, 2), (2, 0)]),
}
SIZES = [n for n, _ in PARTS.values()]


def packed() -> tuple[Tensor, ew.Graph, Tensor]:
    """Node features, the graph of all parts, and features of its edges, in float64."""
    torch.manual_seed(3)
    x, index, edges = [], [], []
    for n, pairs in PARTS.values():
        one = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
        both = torch.cat([one, one[:, one[0] != one[1]].flip(0)], dim=1)
        x.append(torch.randn(n, IN, dtype=torch.double))
        index.append(both)
        edges.append(torch.randn(both.shape[1], EDGE, dtype=torch.double))
    features, graph, _, edge_attr = PackedGraphs.of(x, index, edges).take(torch.arange(len(SIZES)))
    return features, graph, edge_attr


def small(**given: Any) -> SAN:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "depth": 2, "heads": HEADS, "position_size": K}
    model = models.san(IN, 2, **{"edge_width": EDGE, "gamma": 0.3, **sizes, **given})
    return model.double().eval()


MEMBER = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))


def attended(
    layer: SpectralAttention, x: Tensor, graph: ew.Graph, edge_attr: Tensor | None
) -> Tensor:
    """The formula, a node and a head at a time, in loops over all nodes."""
    names = ("query", "key", "far_query", "far_key", "value")
    weights, biases = layer.project.weight.chunk(5), layer.project.bias.chunk(5)
    of = {
        name: (x @ weight.T + bias).view(len(x), HEADS, -1)
        for name, weight, bias in zip(names, weights, biases, strict=True)
    }
    edge = {pair: e for e, pair in enumerate(map(tuple, graph.edge_index.T.tolist()))}
    owner, width = MEMBER, WIDTH // HEADS
    out = torch.zeros(len(x), HEADS, width, dtype=torch.double)
    for i in range(len(x)):
        others = [j for j in range(len(x)) if owner[j] == owner[i]]
        near = [j for j in others if (j, i) in edge]
        far = [j for j in others if (j, i) not in edge]
        for head in range(HEADS):
            for sources, query, key, share in (
                (near, "query", "key", 1.0),
                (far, "far_query", "far_key", layer.gamma),
            ):
                if not sources:
                    continue
                scores = []
                for j in sources:
                    factor = torch.ones(width, dtype=torch.double)
                    if query == "query" and edge_attr is not None:
                        factor = factor + layer.edge(edge_attr[edge[j, i]]).view(HEADS, -1)[head]
                    product = of[query][i, head] * of[key][j, head] * factor
                    scores.append(product.sum() / width**0.5)
                weight = torch.stack(scores).softmax(0)
                read = (weight[:, None] * of["value"][sources, head]).sum(0)
                out[i, head] += share / (1 + layer.gamma) * read
    return layer.output(out.flatten(1))


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("with_edges", [True, False])
@pytest.mark.parametrize("gamma", [0.3, 1e-5, 0.0, 7.0])
def test_san_by_its_formula_node_by_node(gamma: float, with_edges: bool) -> None:
    model = small(gamma=gamma)
    x, graph, edge_attr = packed()
    given = edge_attr if with_edges else None
    h = model.position(model.embed(x), model.position.code(graph))
    for layer in model.layers:
        h = layer.attention.norm(h + attended(layer.attention.sublayer, h, graph, given))
        h = layer.feed_forward.norm(h + layer.feed_forward.sublayer(h))
    expected = model.head(torch.stack([one.sum(0) for one in h.split(SIZES)]))
    found = model(x, graph, edge_attr=given, batch=SIZES)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_without_other_pairs_it_is_attention_along_the_edges() -> None:
    model = small(gamma=0.0)
    x, graph, _ = packed()
    (layer, _), h = model.layers, model.embed(x)
    query, key, _, _, value = (
        layer.attention.sublayer.project(h).view(len(x), 5, HEADS, -1).unbind(1)
    )
    expected = layer.attention.sublayer.output(ew.attend(query, key, value, graph).flatten(1))
    found = layer.attention.sublayer(h, graph, model.others(graph))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert model.others(graph).num_edges == 0


def test_every_pair_of_a_member_is_an_edge_or_one_of_the_others() -> None:
    _, graph, _ = packed()
    others, same = small().others(graph), MEMBER[:, None] == MEMBER
    assert not (others.dense() & graph.dense()).any()
    assert torch.equal(others.dense() | graph.dense(), same)
    assert small().others(graph) is others  # the other model's is the same, and made once


def test_places_are_what_pytorchs_encoder_makes_of_the_spectrum() -> None:
    """With the eigenvectors that a graph has not hidden by PyTorch's mask of padding."""
    torch.manual_seed(0)
    ours = LearnedSpectrum(WIDTH, K, hidden=6, depth=2, heads=2).double().eval()
    peers = [
        nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True, dtype=torch.double)
        for _ in range(2)
    ]
    for peer, layer in zip(peers, ours.layers, strict=True):
        copy_encoder_layer(peer, layer)
    _, graph, _ = packed()
    x = torch.randn(sum(SIZES), WIDTH, dtype=torch.double)
    values, vectors = (
        encodings.laplacian_spectrum(graph, K),
        encodings.laplacian_eigenvectors(graph, K),
    )
    there = vectors.split(SIZES)
    there = torch.stack([one.abs().sum(0) > 0 for one in there])[MEMBER]
    assert there.sum(1).unique().tolist() == [0, 2, 4]
    tokens = ours.embed(torch.stack([values[MEMBER], vectors], -1).double())
    some = there.any(1)
    for peer in peers:  # a row that is all padding is NaN in PyTorch
        tokens = tokens.index_put((some,), peer(tokens[some], src_key_padding_mask=~there[some]))
    expected = x + ours.project((tokens * there[..., None]).sum(1) / K)
    torch.testing.assert_close(ours(x, ours.code(graph)), expected, rtol=0, atol=1e-12)


def test_signs_are_drawn_in_training_and_as_the_code_has_them_afterwards() -> None:
    torch.manual_seed(0)
    place = LearnedSpectrum(WIDTH, K, hidden=6, depth=1, heads=2).double()
    _, graph, _ = packed()
    x, code = torch.zeros(sum(SIZES), WIDTH, dtype=torch.double), place.code(graph)
    torch.testing.assert_close(place.eval()(x, code), place(x, code), rtol=0, atol=0)
    by_signs = {}
    for signs in torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * K):
        turned = code * torch.stack([torch.ones(K), signs], dim=-1)
        by_signs[tuple(signs.tolist())] = place(x, turned)
    assert len(by_signs) == 2**K
    place.train()
    drawn = set()
    for _ in range(150):
        found = place(x, code)
        drawn |= {s for s, out in by_signs.items() if torch.allclose(out, found, atol=1e-12)}
    assert len(drawn) == 2**K  # each is missed with probability (15 / 16)^150, 6e-5


def test_repeated_eigenvalues_are_warned_of_once_and_named() -> None:
    """A triangle has the eigenvalue 3/2 twice; a path of five has distinct eigenvalues."""
    _, graph, _ = packed()
    encoding = LearnedSpectrum(WIDTH, K, hidden=6, depth=1, heads=2)
    with pytest.warns(RepeatedEigenvalueWarning, match=r"2 of 5 graphs .*\(graphs 0, 4\)"):
        encoding.code(graph)
    with warnings.catch_warnings(action="error"):
        encoding.code(graph)
        path = graphs.window(1).bind(5).without_self_loops()
        LearnedSpectrum(WIDTH, K, hidden=6, depth=1, heads=2).code(path)


def test_an_eigenvalue_that_is_repeated_beyond_the_last_is_warned_of() -> None:
    """A ring of four has the eigenvalues 0, 1, 1 and 2, so its first eigenvector is arbitrary."""
    encoding = LearnedSpectrum(WIDTH, 1, hidden=6, depth=1, heads=2)
    with pytest.warns(RepeatedEigenvalueWarning, match="1 of 1 graphs"):
        assert encoding.code(graphs.grid(2, 2).bind(4)).shape == (4, 1, 2)


def test_outputs_change_with_the_node_order_only_by_the_free_choices_of_eigenvectors() -> None:
    """A symmetric graph has no canonical basis; the same eigenvectors give the same output."""
    nodes = torch.arange(6)
    pairs = torch.stack([nodes, (nodes + 1) % 6])
    ring = graphs.edges(torch.cat([pairs, pairs.flip(0)], dim=1), 6)
    model, x = small(edge_width=0), torch.randn(6, IN, dtype=torch.double)
    order = torch.randperm(6)
    moved = graphs.edges(order.argsort()[ring.edge_index], 6)
    with pytest.warns(RepeatedEigenvalueWarning, match="1 of 1 graphs"):
        positions = model.position.code(ring)
    out = model(x, ring, positions=positions)
    same = model(x[order], moved, positions=positions[order])
    torch.testing.assert_close(same, out, rtol=1e-10, atol=1e-11)
    assert (model(x[order], moved) - out).abs().max() > 1e-6


def test_its_sizes_are_refused_by_name() -> None:
    with refused("gamma", expected="at least 0", got="-1", remedy="set gamma to"):
        models.san(IN, 2, gamma=-1.0)
    with refused("heads", expected="divisor", got="3", remedy="heads or width"):
        models.san(IN, 2, heads=3)
    with refused("position_heads", expected="position_width 8", got="3", remedy="position_width"):
        models.san(IN, 2, position_heads=3)
    causal = graphs.edges(torch.tensor([[0], [1]]), 2)
    with refused("graph", expected="undirected", got="one direction", remedy="transpose"):
        small()(torch.randn(2, IN, dtype=torch.double), causal)
