"""Answers to questions about triples: the missing tail or head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.app.kinds.triples.data import Answers, Triples, both_questions, triple_graph
from edgewise.app.kinds.triples.task import TriplePrediction
from edgewise.app.predict.node_ids import KnownIds
from edgewise.app.predict.predictor import Answer, Predictor
from edgewise.graphs import Graph
from edgewise.models.triple_predictor import TriplePredictor

ASKED = "?"
"""Stands for the missing head or tail of a question."""


class Question(NamedTuple):
    """Node and relation of a question; a relation of at least R is reversed, and asks a head."""

    node: int
    relation: int


class TripleAnswers(Predictor):
    """Most probable tails of (head, relation, ?), or heads of (?, relation, tail), except those in
    the data. The probability is a softmax of the scores of all entities that are left.
    """

    data, task, input = Triples, TriplePrediction, 'a question, such as "Paris, capital of, ?"'

    @torch.no_grad()
    def set_up(self) -> None:
        saved = self.preprocessing.values
        self.entities = KnownIds(saved["ids"], "node")
        self.relations = list(map(str, saved["relations"]))
        known = saved["known"]
        self.known = Answers(both_questions(known, len(self.relations)), len(saved["ids"]))
        self.graph = triple_graph(known, len(saved["ids"]), self.relations)
        assert isinstance(self.model, TriplePredictor)
        self.states = self.model.embed(self.graph)

    def node_labels(self, value: Any) -> tuple[list[str], int | None]:
        return list(self.entities.ids), self.prepare(value).node

    def graph_outputs(self) -> tuple[Callable[[], Tensor], Graph, list[str]]:
        model: Any = self.model
        return lambda: model.embed(self.graph), self.graph, list(self.entities.ids)

    def columns(self) -> tuple[str, ...]:
        return "head", "relation", "tail"

    def from_row(self, row: Mapping[str, Any]) -> Any:
        return [row[name] for name in self.columns()]

    def from_words(self, words: Sequence[str]) -> Iterator[Any]:
        """Yield three words with ``?`` as one question, otherwise a question for each word."""
        if len(words) == len(self.columns()) and ASKED in words:
            yield list(words)
        else:
            yield from words

    def prepare(self, value: Any) -> Question:
        parts = fields(value) if isinstance(value, str) else [str(part).strip() for part in value]
        asked = [place for place, part in enumerate(parts) if part in (ASKED, "")]
        if len(parts) != len(self.columns()) or asked not in ([0], [2]):
            raise ArgumentError(
                "input",
                expected="a head, a relation and a tail, of which head or tail is ?",
                got=repr(value)[:60],
                remedy='write for example "Paris, capital of, ?" or "?, capital of, France"',
            )
        head, relation, tail = parts
        if relation not in self.relations:
            raise unknown_name("input", relation, self.relations)
        number = self.relations.index(relation)
        if asked == [2]:
            return Question(self.entities.number(head), number)
        return Question(self.entities.number(tail), number + len(self.relations))

    def show(self, value: Any) -> str:
        return value if isinstance(value, str) else ", ".join(str(part) or ASKED for part in value)

    def log_probabilities(self, states: Tensor, question: Question) -> Tensor:
        """Return the log-probability of each entity ``[N]`` as a new answer, from the states of
        all nodes; -∞ for known answers.
        """
        assert isinstance(self.model, TriplePredictor)
        asked = torch.tensor(question)[:, None]
        scores = (self.model.ask(states, asked) @ self.states.t())[0]
        known = self.known.all(asked)[1]
        return scores.index_fill(0, known, -torch.inf).log_softmax(0)

    def answer(self, examples: list[Question], *, top: int = 10) -> list[Answer]:
        check_range("top", top, "choose a number of answers, such as 10", least=1)
        answers: list[Answer] = []
        for question in examples:
            logs = self.log_probabilities(self.states, question)
            values, numbers = logs.topk(min(top, int(logs.isfinite().sum())))
            ranked = zip(values.exp().tolist(), numbers.tolist(), strict=True)
            answers.append(
                {"answers": [{"entity": self.entities[n], "probability": p} for p, n in ranked]}
            )
        return answers


def fields(text: str) -> list[str]:
    """Return the parts of a question, between tabs, commas or spaces, the first that there is."""
    delimiter = next((mark for mark in "\t," if mark in text), None)
    parts = text.split() if delimiter is None else text.split(delimiter)
    return [part.strip() for part in parts]
