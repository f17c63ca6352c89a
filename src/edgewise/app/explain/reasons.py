"""Reasons for predictions of runs: the words, atoms, neighbours or items with the largest effect.

``run.explain(inputs)``, ``edgewise predict RUN … --why 3`` and the page of ``edgewise explain``
have these reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise.app.explain.cases import cases
from edgewise.app.kinds.nodes.predict import OnNodes
from edgewise.app.kinds.nodes.reasons import node_cases
from edgewise.app.predict.predictor import Answer
from edgewise.app.predict.rows import is_of_dicts
from edgewise.app.runs.run import Run
from edgewise.explain.attribution import Case, Method, all_contributions, contributions
from edgewise.explain.parts import is_hybrid, part_scores, recorded_parts
from edgewise.explain.reasons import Attribution, Reason, attribution

MANY = 64
"""Number of nodes above which ``"auto"`` explains many nodes in one pass."""
MOST_COMPARED = 12
"""Maximum number of answers of an input, such as words of a translation, for which a page has all
methods."""


def attributions(
    run: Run, inputs: Any, *, top: int = 5, method: Method = "auto", answers: int = 1
) -> list[Attribution]:
    """Explain the predictions of a run by parts of the inputs.

    The default method is that of :func:`edgewise.explain.contributions`: for most inputs of up to
    64 parts, and larger graphs, ``"removed"``, which computes the prediction again without each
    part and was the most faithful method for most kinds of run (``python -m
    benchmarks.fidelity``). For larger inputs, and if more than 64 nodes of a graph are explained,
    it is a method that needs one forward and one backward pass.

    Args:
        run: run of :func:`edgewise.load`.
        inputs: inputs as for :meth:`edgewise.app.runs.Run.predict`, without files.
        top: number of reasons for each prediction, evidence for and against it.
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
        pairs = node_cases(predictor).contributions(numbers, method)
        return [
            attribution(str(value), case, scores, top, [])
            for value, (case, scores) in zip(values, pairs, strict=True)
        ]
    return [
        attribution
        for value in values
        for attribution in _of_input(run, value, top, method, answers)
    ]


def all_attributions(run: Run, value: Any) -> list[Attribution]:
    """Explain the prediction for one input by all methods and with all reasons, for a page."""
    return list(_of_input(run, value, None, None, 3))


def _of_input(
    run: Run, value: Any, top: int | None, method: Method | None, answers: int
) -> Iterator[Attribution]:
    """Explain the answers for an input by one method, or by all methods if it is ``None``."""
    value = run.predictor.input_of(value)
    explained = cases(run.predictor, value, top=answers)
    scores_of_parts = _scores_of_parts(run, value)
    for case in explained:
        parts = _parts(run, scores_of_parts, case)
        # With exact pairs, the other methods see only some of the effects.
        if method or len(explained) > MOST_COMPARED or case.exact_pairs is not None:
            scores = [contributions(case, method or "auto")]
        else:
            scores = list(all_contributions(case))
        for by_method in scores:
            yield attribution(run.predictor.show(value), case, by_method, top, parts)


def _scores_of_parts(run: Run, value: Any) -> Mapping[str, Tensor]:
    """Return the scores ``[1, C]`` of each part of a hybrid model; empty for other models."""
    if not is_hybrid(run.model):
        return {}
    with torch.no_grad(), recorded_parts(run.model) as calls:
        run.predictor.answer([run.predictor.prepare(value)])
    return calls[-1] if calls else {}


def _parts(run: Run, scores: Mapping[str, Tensor], case: Case) -> list[Reason]:
    """Return what each part of a hybrid model adds to an answer."""
    if not scores:
        return []
    column = torch.tensor([run.predictor.output_of(case.answer)])
    added = part_scores(scores, column)
    return [Reason(name, float(values)) for name, values in added.items()]


def add_reasons(run: Run, answer: Answer, value: Any, top: int) -> set[str]:
    """Add ``why``, pairs of part and contribution, to a prediction or its rows that are explained,
    and ``parts`` for a hybrid model. The result are descriptions of the contributions.
    """
    rows: list[Any] = next((field for field in answer.values() if is_of_dicts(field) and field), [])
    explained = list(_of_input(run, value, top, "auto", max(1, len(rows))))
    if rows and len(rows) % len(explained) == 0 and (len(explained) > 1 or len(rows) == 1):
        # Of several words for one mask, the most probable one, which comes first, is explained.
        for row, attribution in zip(rows[:: len(rows) // len(explained)], explained, strict=True):
            row.update(_columns(attribution))
    elif len(explained) == 1 and not run.predictor.text_key:
        answer.update(_columns(explained[0]))
    else:
        answer["why"] = [
            {"part": attribution.answer, **_columns(attribution)} for attribution in explained
        ]
    return {attribution.meaning for attribution in explained}


def _columns(attribution: Attribution) -> dict[str, list[list[Any]]]:
    """Return the reasons as pairs (name of the part, contribution), for JSON."""
    lists = {"parts": attribution.parts, "why": attribution.reasons}
    return {
        name: [[reason.part, reason.contribution] for reason in reasons]
        for name, reasons in lists.items()
        if reasons or name == "why"
    }
