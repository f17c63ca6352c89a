"""Scores of triples: PyTorch Geometric's without layers, and read from the graph with them."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.models import triple_predictor
from tests.errors import refused

NODES, RELATIONS = 7, 4
QUESTIONS = torch.tensor([[0, 3, 3, 6], [0, 1, 3, 2]])


def a_graph() -> graphs.TypedGraph:
    pairs = {("n", "a", "n"): [[0, 1, 2], [1, 2, 3]], ("n", "b", "n"): [[4, 0], [2, 5]]}
    edges = {relation: torch.tensor(index) for relation, index in pairs.items()}
    return graphs.typed(edges, {"n": NODES}).with_reverse()


@pytest.mark.parametrize(("decoder", "name"), [("distmult", "DistMult"), ("complex", "ComplEx")])
def test_without_layers_it_is_pygs(decoder: str, name: str) -> None:
    kge = pytest.importorskip("torch_geometric.nn.kge")
    half = 3
    model = triple_predictor(
        NODES, relations=RELATIONS, width=2 * half, depth=0, decoder=decoder
    ).eval()
    parts = {"": model.embedding.weight}, {"": model.relation}
    width = 2 * half
    if decoder == "complex":
        width = half
        parts = tuple(
            dict(zip(("", "_im"), table[""].split(half, -1), strict=True)) for table in parts
        )
    other = getattr(kge, name)(NODES, RELATIONS, width)
    tables = {
        f"{kind}_emb{suffix}.weight": table
        for kind, halves in zip(("node", "rel"), parts, strict=True)
        for suffix, table in halves.items()
    }
    other.load_state_dict(tables)
    every = torch.arange(NODES)
    scores = model(QUESTIONS, every, a_graph())
    for row, (node, relation) in zip(scores, QUESTIONS.T, strict=True):
        expected = other(node.expand(NODES), relation.expand(NODES), every)
        torch.testing.assert_close(row, expected)


@pytest.mark.parametrize("encoder", ["rgcn", "hgt"])
@pytest.mark.parametrize("decoder", ["distmult", "complex"])
def test_scores_are_bilinear_in_the_states(encoder: str, decoder: str) -> None:
    model = triple_predictor(
        NODES, relations=RELATIONS, width=8, encoder=encoder, decoder=decoder
    ).eval()
    z, entities = model.embed(a_graph()), torch.tensor([5, 0, 2])
    scores = model(QUESTIONS, entities, a_graph())
    head, weight = z[QUESTIONS[0]], model.relation[QUESTIONS[1]]
    if decoder == "distmult":
        expected = (head * weight) @ z[entities].T
    else:
        head, weight, tail = (torch.complex(*x.chunk(2, -1)) for x in (head, weight, z[entities]))
        expected = ((head * weight) @ tail.conj().T).real
    torch.testing.assert_close(scores, expected)
    positives = torch.tensor([2, 4, 5, 0])
    both = model(QUESTIONS, entities, a_graph(), positives=positives)
    everything = model(QUESTIONS, torch.arange(NODES), a_graph())
    torch.testing.assert_close(both[:, 0], everything[torch.arange(4), positives])
    is_right = positives[:, None] == entities
    assert torch.equal(both[:, 1:].isinf(), is_right)
    torch.testing.assert_close(both[:, 1:][~is_right], scores[~is_right])


def test_states_of_a_part_of_the_graph() -> None:
    model, graph = triple_predictor(NODES, relations=RELATIONS, width=8).eval(), a_graph()
    nodes = torch.tensor([1, 2, 3, 4])
    inside = torch.isin(graph.edge_index, nodes).all(0).nonzero()[:, 0]
    index = torch.searchsorted(nodes, graph.edge_index[:, inside])
    part = model.embed(graph.renumbered(index, inside, nodes), nodes)
    torch.testing.assert_close(part[1:], model.embed(graph)[nodes][1:])
    assert not torch.allclose(part[0], model.embed(graph)[1]), "node 0 is left out"


def test_wrong_choices_are_refused() -> None:
    with refused("decoder", expected="distmult", got="dismult", remedy="distmult"):
        triple_predictor(NODES, decoder="dismult")
    with refused("width", expected="an even number", got="7", remedy="add 1"):
        triple_predictor(NODES, width=7, decoder="complex")


def test_what_is_out_of_range_is_refused() -> None:
    model, some = triple_predictor(NODES, relations=RELATIONS, width=4), torch.arange(2)
    with refused("graph", expected="7 nodes", got="4 nodes", remedy="build the model"):
        model(QUESTIONS[:, :1], some, graphs.window(1).bind(4))
    for row, name, limit in ((0, "nodes", NODES), (1, "relations", RELATIONS)):
        questions = QUESTIONS.clone()
        questions[row, 0] = limit
        with refused(
            "questions", expected=f"{name} from 0 to {limit - 1}", got=f"to {limit}", remedy=name
        ):
            model(questions, some, a_graph())
