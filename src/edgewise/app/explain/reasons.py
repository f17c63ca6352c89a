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
        input: the input.
        answer: the prediction, or the explained part of it, such as the tag of a word.
        reasons: parts of the input.
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
    found = []
    given = run.predictor.default_inputs() if inputs is None else run.predictor.from_python(inputs)
    given = list(given)
    if isinstance(run.predictor, OnNodes) and len(given) > MANY and method != "removed":
        numbers = [run.predictor.nodes.number(value) for value in given]
        each = node_cases(run.predictor).contributions(
            numbers, "left_out" if method == "auto" else method
        )
        return [
            _attribution(str(value), case, own, top)
            for value, (case, own) in zip(given, each, strict=True)
        ]
    for value in given:
        found += list(_of_input(run, value, top, method, answers))
    return found


def _of_input(
    run: Run, value: Any, top: int, method: Method, answers: int
) -> Iterator[Attribution]:
    given = run.predictor.given(value)
    for case in cases(run.predictor, given, top=answers):
        yield _attribution(run.predictor.show(given), case, contributions(case, method), top)


def _attribution(value: str, case: Case, found: Contributions, top: int) -> Attribution:
    meaning = "decrease of the log-odds of the prediction without the part"
    if not case.is_odds:
        meaning = "decrease of the predicted value without the part"
    if found.method not in ("removed", "left_out"):
        meaning = f"{found.method} of the part, summed over layers and heads"
    return Attribution(value, case.answer, reasons_of(case, found, top), found.method, meaning)


def reasons_of(case: Case, found: Contributions, top: int) -> list[Reason]:
    """Return the parts with the largest contributions.

    Parts are edges if the case has ``by_edge``, otherwise members. For a property, negative
    contributions count by their absolute value. In a large graph, only neighbours of the nodes that
    the answer is about are named. If a node has the same contribution as one of its edges, because
    it acts on the answer through this edge alone, only the node is named.
    """
    parts: list[Reason] = []
    edges = list(zip(found.pairs.T.tolist(), found.edges.tolist(), strict=True))
    if case.by_edge and case.whole_graph and case.own is not None:
        own = set(case.own.tolist())
        near = [
            ((first, second) if first in own else (second, first), value)
            for (first, second), value in edges
            if (first in own) != (second in own)
        ]
        times = Counter(other for (_, other), _ in near)
        for (node, other), value in near:  # A common neighbour of two nodes has two edges.
            name = case.labels[other]
            name = name if times[other] == 1 else f"{case.labels[node]}-{name}"
            parts.append(Reason(name, value))
    else:
        members = {
            place: float(found.members[place]) for place in listed(case).nonzero()[:, 0].tolist()
        }
        parts += [Reason(case.labels[place], value) for place, value in members.items()]
        for ends, value in edges if case.by_edge else ():
            same = (math.isclose(members.get(end, math.nan), value, rel_tol=1e-3) for end in ends)
            if not any(same):
                parts.append(Reason("-".join(case.labels[end] for end in ends), value))
    parts = [part for part in parts if part.contribution != 0.0]
    if case.is_odds:
        return sorted(parts, key=lambda part: -part.contribution)[:top]
    return sorted(parts, key=lambda part: -abs(part.contribution))[:top]


def add_reasons(run: Run, answer: Answer, value: Any, top: int) -> set[str]:
    """Add the key ``why`` to a prediction, or to each part of it that is explained.

    Its value is a list of pairs: the name of a part of the input and its contribution.

    Args:
        run: the run.
        answer: prediction of the run on ``value``, changed in place.
        value: the input.
        top: number of reasons.

    Returns:
        Descriptions of the contributions.
    """
    lists = [one for one in answer.values() if is_of_dicts(one) and one]
    parts = lists[0] if lists else []
    found = list(_of_input(run, value, top, "auto", max(1, len(parts))))
    if all(attribution.method == "attention" for attribution in found):
        found = found[:1]  # The weights of a forecast are the same for all of its steps.
    if parts and len(parts) % len(found) == 0 and (len(found) > 1 or len(parts) == 1):
        # Of several words for one mask, the most probable one, which comes first, is explained.
        for part, one in zip(parts[:: len(parts) // len(found)], found, strict=True):
            part["why"] = _pairs(one)
    elif len(found) == 1 and not run.predictor.text_key:
        answer["why"] = _pairs(found[0])
    else:
        answer["why"] = [{"part": one.answer, "why": _pairs(one)} for one in found]
    return {one.meaning for one in found}


def _pairs(found: Attribution) -> list[list[Any]]:
    """Return the reasons as pairs (name of the part, contribution), for JSON."""
    return [[reason.part, reason.contribution] for reason in found.reasons]
