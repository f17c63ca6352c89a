"""Scores of pairs: symmetric, by the decoder's formula, and from the graph that is passed."""

from __future__ import annotations

import math

import pytest
import torch

from edgewise import graphs
from edgewise.models import link_predictor
from edgewise.models.link_predictor import _structure
from tests.errors import refused

PAIRS = torch.tensor([[0, 1, 4], [3, 1, 2]])


def a_graph() -> graphs.Graph:
    pairs = torch.tensor([[0, 1, 2], [1, 2, 3]])
    return graphs.edges(torch.cat([pairs, pairs.flip(0)], dim=1), 5)


@pytest.mark.parametrize("decoder", ["dot", "network"])
def test_direction_does_not_matter(decoder):
    model = link_predictor(5, width=4, decoder=decoder)
    out = model(PAIRS, a_graph())
    assert out.shape == (3,)
    assert torch.equal(out, model(PAIRS.flip(0), a_graph()))


def test_an_unknown_decoder_is_refused():
    with refused("decoder", expected="network", got="bilinear", remedy="network"):
        link_predictor(5, decoder="bilinear")


def test_a_single_pair_can_be_trained_on():
    model = link_predictor(5, width=4, overlap=True).train()
    model(PAIRS[:, :1], a_graph()).sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_inner_products():
    model = link_predictor(5, width=4, depth=1, decoder="dot")
    z = model.encoder(model.embedding.weight, a_graph())
    torch.testing.assert_close(model(PAIRS, a_graph()), (z @ z.T)[PAIRS[0], PAIRS[1]])


def test_it_reads_the_graph():
    model = link_predictor(5, width=4, depth=1, decoder="dot")
    changed = model(PAIRS, graphs.edges(torch.tensor([[2], [0]]), 5)) != model(PAIRS, a_graph())
    assert changed.tolist() == [True, True, True]


def test_overlap_reads_common_neighbours_and_degrees():
    """All states are equal, so only the structure of the pairs differs."""
    model = link_predictor(5, width=4, depth=1, overlap=True)
    with torch.no_grad():
        model.embedding.weight.zero_()
    pairs = torch.tensor([[0, 0, 0, 3, 1], [2, 3, 4, 0, 3]])
    scores = model(pairs, a_graph())
    assert scores[0] != scores[1], "0 and 2 have the common neighbour 1"
    assert scores[1] == scores[3], "the direction does not matter"
    assert scores[1] != scores[2], "3 has a neighbour and 4 has none"
    assert _structure(pairs[:, 4:], a_graph()).expm1().tolist() == [
        pytest.approx([10, 10 / math.log(2), 5, 1, 2], rel=1e-5)
    ], "1 and 3 have the common neighbour 2, of degree 2"
