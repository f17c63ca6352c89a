"""Reasons for the answers to a question: the edges around its entity and around the answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from edgewise.app.kinds.triples.predict import TripleAnswers
from edgewise.explain.attribution import Case
from edgewise.explain.removal import relation_names
from edgewise.graphs import TypedGraph
from edgewise.models.triple_predictor import TriplePredictor, neighbourhood


def answered_triples(predictor: TripleAnswers, value: Any, top: int) -> Iterator[Case]:
    """Yield the edges around both entities as reasons for each answer.

    The score is the log-odds of the answer. Removed edges change the states of the two entities;
    the states of all other entities stay as they are.
    """
    question = predictor.prepare(value)
    model, graph = predictor.model, predictor.graph
    assert isinstance(model, TriplePredictor)
    with torch.no_grad():
        answers = predictor.answer([question], top=top)[0]["answers"]
    for answer in answers:
        number = predictor.entities.number(answer["entity"])
        ends = torch.tensor([question.node, number]).unique()
        nodes, around = neighbourhood(graph, ends, model.depth)
        local = torch.searchsorted(nodes, ends)

        def score(
            ends: Tensor = ends,
            nodes: Tensor = nodes,
            around: TypedGraph = around,
            local: Tensor = local,
            number: int = number,
        ) -> Tensor:
            states = model.embed(around, nodes).index_select(0, local)
            states = predictor.states.index_copy(0, ends, states)
            logs = predictor.log_probabilities(states, question)
            others = logs.index_fill(0, torch.tensor([number]), -torch.inf).logsumexp(0)
            return (logs[number] - others)[None]

        yield Case(
            score,
            torch.arange(len(nodes)),
            [predictor.entities[node] for node in nodes.tolist()],
            answer["entity"],
            local,
            by_edge=True,
            edge_names=relation_names(around),
        )
