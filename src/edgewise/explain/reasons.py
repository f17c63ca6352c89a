"""Reasons for predictions: the words, atoms, bonds, neighbours or items with the largest effect.

``run.explain(inputs)`` and ``edgewise predict RUN … --why N`` call these functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from edgewise.arguments import check_least
from edgewise.explain.attribution import Case, Contributions, Method, contributions, listed
from edgewise.explain.cases import cases, node_cases
from edgewise.inference import Answer, Run
from edgewise.inference.nodes import NodeClasses
from edgewise.inference.rows import is_of_dicts

MANY = 64
"""Number of nodes above which ``"auto"`` explains many nodes in one pass."""


@dataclass(frozen=True)
class Reason:
    """A part of the input and its contribution to an answer.

    Attributes:
        part: name of a member, such as a word, or of an edge, such as ``"C2-O3"``.
        contribution: decrease of the log-odds of the prediction without the part; for a property,
            decrease of the property, in the unit of the property.
    """

    part: str
    contribution: float

    def __str__(self) -> str:
        return f"{self.part} {self.contribution:+.2g}"


@dataclass(frozen=True)
class Attribution:
    """Reasons for one prediction, by decreasing contribution.

    Attributes:
        input: the input.
        answer: the prediction, or the explained part of it, such as the tag of a word.
        reasons: parts of the input.
        method: method of :func:`edgewise.explain.contributions`.
    """

    input: str
    answer: str
    reasons: list[Reason]
    method: str

    def __str__(self) -> str:
        return f"{self.answer}: {', '.join(map(str, self.reasons))}"


def attributions(
    run: Run, inputs: Any, *, top: int = 5, method: Method = "auto", answers: int = 1
) -> list[Attribution]:
    """Explain the predictions of a run by parts of the inputs.

    For inputs of up to 64 parts, the default method is ``"removed"``, which computes the prediction
    again without each part; on 200 cases per kind it was the most faithful method (``python -m
    benchmarks.fidelity``). For links and items, the limit is higher (see
    :func:`edgewise.explain.contributions`). For larger inputs, and for more than 64 nodes of a
    graph, the default is ``"left_out"``, which needs one forward and one backward pass.

    Args:
        run: run of :func:`edgewise.load`.
        inputs: inputs as for :meth:`edgewise.inference.Run.predict`, without files.
        top: number of reasons for each prediction.
        method: method of :func:`edgewise.explain.contributions`.
        answers: number of recommended items or links to explain.

    Returns:
        An attribution for each prediction, or for each word of a tagged sentence and each step of a
        forecast.

    Raises:
        ArgumentError: invalid input, or a run whose model does not attend over its inputs.

    """
    check_least("top", top, 1, "choose how many reasons you want")
    found = []
    given = run.predictor.default_inputs() if inputs is None else run.predictor.from_python(inputs)
    given = list(given)
    if isinstance(run.predictor, NodeClasses) and len(given) > MANY and method != "removed":
        numbers = [run.predictor.nodes.number(value) for value in given]
        each = node_cases(run.predictor).contributions(
            numbers, "left_out" if method == "auto" else method
        )
        return [
            Attribution(str(value), case.answer, reasons_of(case, own, top), own.method)
            for value, (case, own) in zip(given, each, strict=True)
        ]
    for value in given:
        found += list(_of_input(run, value, top, method, answers))
    return found


def _of_input(
    run: Run, value: Any, top: int, method: Method, answers: int
) -> Iterator[Attribution]:
    given = run.predictor._of_row(value) if isinstance(value, Mapping) else value
    for case in cases(run.predictor, given, top=answers):
        found = contributions(case, method)
        reasons = reasons_of(case, found, top)
        yield Attribution(run.predictor.show(given), case.answer, reasons, found.method)


def reasons_of(case: Case, found: Contributions, top: int) -> list[Reason]:
    """Return the parts with the largest contributions.

    Parts are edges if the case has ``by_edge``, otherwise members. For a property, negative
    contributions count by their absolute value. In a large graph, only neighbours of the node in
    question are named.
    """
    parts: list[Reason] = []
    values = found.edges.tolist()
    pairs = found.pairs.T.tolist()
    if case.by_edge and case.whole_graph and case.own is not None:
        own = set(case.own.tolist())
        for (first, second), value in zip(pairs, values, strict=True):
            if (first in own) != (second in own):
                parts.append(Reason(case.labels[second if first in own else first], value))
    else:
        for place in listed(case).nonzero()[:, 0].tolist():
            parts.append(Reason(case.labels[place], float(found.members[place])))
        if case.by_edge:
            for (first, second), value in zip(pairs, values, strict=True):
                parts.append(Reason(f"{case.labels[first]}-{case.labels[second]}", value))
    parts = [part for part in parts if part.contribution != 0.0]
    if case.is_odds:
        return sorted(parts, key=lambda part: -part.contribution)[:top]
    return sorted(parts, key=lambda part: -abs(part.contribution))[:top]


def add_reasons(run: Run, answer: Answer, value: Any, top: int) -> None:
    """Add the key ``why`` to a prediction, or to each of its parts.

    Args:
        run: the run.
        answer: prediction of the run on ``value``, changed in place.
        value: the input.
        top: number of reasons.

    """
    lists = [one for one in answer.values() if is_of_dicts(one) and one]
    parts = lists[0] if lists else []
    found = list(_of_input(run, value, top, "auto", max(1, len(parts))))
    if parts and len(parts) % len(found) == 0 and (len(found) > 1 or len(parts) == 1):
        each = len(parts) // len(found)
        for place, part in enumerate(parts):
            part["why"] = [str(reason) for reason in found[place // each].reasons]
    elif len(found) == 1 and not run.predictor.text_key:
        answer["why"] = [str(reason) for reason in found[0].reasons]
    else:
        answer["why"] = [
            {"part": one.answer, "why": [str(reason) for reason in one.reasons]} for one in found
        ]
