"""Data of the first tab of an HTML page: the input, its answers and their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from edgewise.explain.attribution import listed
from edgewise.explain.parts import fractions
from edgewise.explain.reasons import Attribution

if TYPE_CHECKING:
    from edgewise.explain.explanation import Explanation

MAX_REASONS, MAX_NODES = 100, 40
"""Maximum number of reasons in a list, and of drawn nodes of a large graph."""


def reasons_data(explanation: Explanation) -> dict[str, Any] | None:
    """Return the reasons of an explanation as JSON values, or None if there are none."""
    by_answer: dict[int, list[Attribution]] = {}
    for attribution in explanation.reasons:
        by_answer.setdefault(id(attribution.case), []).append(attribution)
    if not by_answer:
        return None
    recipe, measured = explanation.details.get("fidelity", ("", {}))
    return {
        "drawing": _drawing(explanation),
        "answers": [_answer(methods) for methods in by_answer.values()],
        "values": explanation.details.get("values"),
        "waveform": explanation.details.get("waveform"),
        "fidelity": {"recipe": recipe, "methods": measured},
    }


def _drawing(explanation: Explanation) -> str:
    if explanation.kind == "sequence" and explanation.details.get("timeline"):
        return "bars"
    return {"sequence": "words", "pair of sequences": "words"}.get(
        explanation.kind, explanation.kind
    )


def _answer(methods: Sequence[Attribution]) -> dict[str, Any]:
    """Return an answer, the members in its drawing, and their contributions by each method."""
    first = methods[0]
    case, own = first.case, first.case.own
    own_members = [] if own is None else [m for m in case.member[own].tolist() if m >= 0]
    members = sorted({*listed(case).nonzero()[:, 0].tolist(), *own_members})
    if case.by_edge and own_members:
        members = _strongest(first, own_members)
    index = {member: number for number, member in enumerate(members)}
    sizes = fractions({part.part: torch.tensor(part.contribution) for part in first.parts})
    return {
        "answer": first.answer,
        "odds": case.is_odds,
        "score": first.score,
        "claim": case.claim and {"text": case.claim.text, "score": case.claim.score},
        "parts": [[part.part, part.contribution, sizes[part.part]] for part in first.parts],
        "labels": [case.labels[member] for member in members],
        "members": members,
        "own": [index[member] for member in own_members],
        "methods": [_method(attribution, index) for attribution in methods],
    }


def _strongest(attribution: Attribution, own: list[int]) -> list[int]:
    """Return the members of the answer, and those with the largest contributions or edges."""
    scores = attribution.scores
    size = scores.members.abs()
    size = size.index_add(0, scores.pairs.flatten(), scores.strengths.repeat(2))
    size[own] = torch.inf
    count = min(MAX_NODES, int((size > 0).sum()))
    strongest: list[int] = size.topk(count).indices.sort().values.tolist()
    return strongest


def _method(attribution: Attribution, index: dict[int, int]) -> dict[str, Any]:
    scores = attribution.scores
    edges = zip(scores.pairs.T.tolist(), scores.edges.tolist(), strict=True)
    return {
        "name": attribution.method,
        "meaning": attribution.meaning,
        "reasons": [[r.part, r.contribution] for r in attribution.reasons[:MAX_REASONS]],
        "omitted": max(0, len(attribution.reasons) - MAX_REASONS),
        "effects": [float(scores.members[member]) for member in index],
        "edges": [
            [index[first], index[second], value]
            for (first, second), value in edges
            if attribution.case.by_edge and first in index and second in index
        ],
    }
