"""Reasons for predictions: the words, atoms, bonds, neighbours or items with the largest effect.

``run.explain(inputs)`` and ``edgewise predict RUN … --why 3`` call these functions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from edgewise._utils.arguments import check_range
from edgewise._utils.digits import rounded
from edgewise.app.explain.cases import cases
from edgewise.app.kinds.nodes.predict import OnNodes
from edgewise.app.kinds.nodes.reasons import node_cases
from edgewise.app.predict.predictor import Answer
from edgewise.app.predict.rows import is_of_dicts
from edgewise.app.runs.run import Run
from edgewise.explain.attribution import Case, Contributions, Method, contributions, listed

MANY = 64
"""Number of nodes above which ``"auto"`` explains many nodes in one pass."""


@dataclass(frozen=True)
class Reason:
    """A part of the input and its contribution to an answer.

    Attributes:
        part: name of a member, such as a word, or of an edge, such as ``"C2-O3"``. Atoms count
            from 1 in the order of the SMILES, so atom 0 of RDKit has the number 1.
        contribution: decrease of the log-odds of the prediction without the part; for a property,
            decrease of the property, in the unit of the property.
    """

    part: str
    contribution: float

    def __str__(self) -> str:
        return f"{self.part} {rounded(self.contribution, '+')}"


@dataclass(frozen=True)
class Attribution:
    """Reasons for one prediction, by decreasing contribution.

    Attributes:
        answer: the prediction, or the explained part of it, such as the tag of a word.
        method: method of :func:`edgewise.explain.contributions`.
        meaning: description of the contributions.
    """

    input: str
    answer: str
    reasons: list[Reason]
    method: str
    meaning: str = ""

    def __str__(self) -> str:
        return f"{self.answer}: {', '.join(map(str, self.reasons))}"


def attributions(
    run: Run, inputs: Any, *, top: int = 5, method: Method = "auto", answers: int = 1
) -> list[Attribution]:
    """Explain the predictions of a run by parts of the inputs.

    For inputs of up to 64 parts, the default method is ``"removed"``, which computes the prediction
    again without each part. For most kinds of run, this was the most faithful method (``python -m
    benchmarks.fidelity``). For links and items, the limit is higher (see
    :func:`edgewise.explain.contributions`). For larger inputs, and if more than 64 nodes of a graph
    are explained, the default is ``"left_out"``, which needs one forward and one backward pass.

    Args:
        run: run of :func:`edgewise.load`.
        inputs: inputs as for :meth:`edgewise.app.runs.Run.predict`, without files.
        top: number of reasons for each prediction.
        method: method of :func:`edgewise.explain.contributions`.
        answers: number of recommended items or links to explain.

    Returns:
        An attribution for each prediction, or for each word of a tagged sentence and each step of a
        forecast.

    Raises:
        ArgumentError: an input is invalid, or the model of the run does not attend over its inputs.

    """
    check_range("top", top, "choose a number of reasons, such as 5", least=1)
    predictor = run.predictor
    values = list(predictor.default_inputs() if inputs is None else predictor.from_python(inputs))
    if isinstance(predictor, OnNodes) and len(values) > MANY and method != "removed":
        numbers = [predictor.nodes.number(value) for value in values]
        pairs = node_cases(predictor).contributions(
            numbers, "left_out" if method == "auto" else method
        )
        return [
            _attribution(str(value), case, scores, top)
            for value, (case, scores) in zip(values, pairs, strict=True)
        ]
    return [
        attribution
        for value in values
        for attribution in _of_input(run, value, top, method, answers)
    ]


def _of_input(
    run: Run, value: Any, top: int, method: Method, answers: int
) -> Iterator[Attribution]:
    value = run.predictor.input_of(value)
    for case in cases(run.predictor, value, top=answers):
        yield _attribution(run.predictor.show(value), case, contributions(case, method), top)


def _attribution(value: str, case: Case, scores: Contributions, top: int) -> Attribution:
    meaning = "decrease of the log-odds of the prediction without the part"
    if not case.is_odds:
        meaning = "decrease of the predicted value without the part"
    if scores.method not in ("removed", "left_out"):
        meaning = f"{scores.method} of the part, summed over layers and heads"
    return Attribution(value, case.answer, reasons_of(case, scores, top), scores.method, meaning)


def reasons_of(case: Case, scores: Contributions, top: int) -> list[Reason]:
    """Return the edges, if the case has ``by_edge``, or members with the largest contributions."""
    reasons: list[Reason] = []
    edges = list(zip(scores.pairs.T.tolist(), scores.edges.tolist(), strict=True))
    if case.by_edge and case.whole_graph and case.own is not None:
        explained = set(case.own.tolist())
        incident = [
            ((first, second) if first in explained else (second, first), value)
            for (first, second), value in edges
            if (first in explained) != (second in explained)
        ]
        degree = Counter(neighbour for (_, neighbour), _ in incident)
        for (node, neighbour), value in incident:
            name = case.labels[neighbour]
            if degree[neighbour] > 1:  # A common neighbour of two nodes has two edges.
                name = f"{case.labels[node]}-{name}"
            reasons.append(Reason(name, value))
    else:
        members = {
            member: float(scores.members[member])
            for member in listed(case).nonzero()[:, 0].tolist()
        }
        reasons += [Reason(case.labels[member], value) for member, value in members.items()]
        for ends, value in edges if case.by_edge else ():
            # A node that acts on the answer through this edge alone is named instead of the edge.
            same = (math.isclose(members.get(end, math.nan), value, rel_tol=1e-3) for end in ends)
            if not any(same):
                reasons.append(Reason("-".join(case.labels[end] for end in ends), value))
    reasons = [reason for reason in reasons if reason.contribution != 0.0]
    if case.is_odds:
        return sorted(reasons, key=lambda reason: -reason.contribution)[:top]
    return sorted(reasons, key=lambda reason: -abs(reason.contribution))[:top]


def add_reasons(run: Run, answer: Answer, value: Any, top: int) -> set[str]:
    """Add ``why``, pairs of part and contribution, to a prediction or its rows that are explained.
    The result are descriptions of the contributions.
    """
    rows: list[Any] = next((field for field in answer.values() if is_of_dicts(field) and field), [])
    explained = list(_of_input(run, value, top, "auto", max(1, len(rows))))
    if all(attribution.method == "attention" for attribution in explained):
        explained = explained[:1]  # The weights of a forecast are the same for all of its steps.
    if rows and len(rows) % len(explained) == 0 and (len(explained) > 1 or len(rows) == 1):
        # Of several words for one mask, the most probable one, which comes first, is explained.
        for row, attribution in zip(rows[:: len(rows) // len(explained)], explained, strict=True):
            row["why"] = _pairs(attribution)
    elif len(explained) == 1 and not run.predictor.text_key:
        answer["why"] = _pairs(explained[0])
    else:
        answer["why"] = [
            {"part": attribution.answer, "why": _pairs(attribution)} for attribution in explained
        ]
    return {attribution.meaning for attribution in explained}


def _pairs(attribution: Attribution) -> list[list[Any]]:
    """Return the reasons as pairs (name of the part, contribution), for JSON."""
    return [[reason.part, reason.contribution] for reason in attribution.reasons]
