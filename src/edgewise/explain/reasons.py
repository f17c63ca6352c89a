"""Reasons for a prediction: the parts of the input with the largest effect, of both signs."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import torch

from edgewise._utils.digits import rounded
from edgewise._utils.errors import ArgumentError
from edgewise.explain.attribution import Case, Contributions, listed


@dataclass(frozen=True)
class Reason:
    """A part of the input, or of a hybrid model, and its contribution to an answer.

    Attributes:
        part: name of a member, such as a word, or of an edge, such as ``"C2-O3"``. Atoms count
            from 1 in the order of the SMILES, so atom 0 of RDKit has the number 1.
        contribution: decrease of the log-odds of the prediction without the part; for a property,
            decrease of the property, in the unit of the property. Negative for evidence against
            the prediction.

    Example:
        >>> from edgewise.app.explain import Reason
        >>> Reason("dull", -0.52)
        Reason(part='dull', contribution=-0.52)
    """

    part: str
    contribution: float

    def __str__(self) -> str:
        return f"{self.part} {rounded(self.contribution, '+')}"


@dataclass(frozen=True)
class Attribution:
    """Reasons for one prediction, by decreasing absolute contribution.

    Attributes:
        answer: the prediction, or the explained part of it, such as the tag of a word.
        method: method of :func:`edgewise.explain.contributions`.
        meaning: description of the contributions.
        parts: for a hybrid model, what each part of it adds to the score of the answer (see
            :func:`edgewise.explain.parts.part_scores`).
        case: the explained prediction.
        scores: contributions of all members and edges.

    Example:
        >>> import edgewise
        >>> run = edgewise.load("runs/sst2")  # doctest: +SKIP
        >>> (attribution,) = run.explain(["A dull film."])  # doctest: +SKIP
        >>> attribution.answer, attribution.reasons[0].part  # doctest: +SKIP
        ('negative', 'dull')
    """

    input: str
    answer: str
    reasons: list[Reason]
    method: str
    meaning: str
    parts: list[Reason] = field(default_factory=list)
    case: Case = field(kw_only=True, repr=False, compare=False)
    scores: Contributions = field(kw_only=True, repr=False, compare=False)

    @property
    def score(self) -> float:
        """Sigmoid of the log-odds of the answer, or the number that is explained."""
        with torch.no_grad():
            score = self.case.score().sum()
            return float(score.sigmoid() if self.case.is_odds else score)

    @property
    def probability(self) -> float | None:
        """Probability of the answer; None if it is a number, or if a claim has another score."""
        return self.score if self.case.is_odds and self.case.claim is None else None

    def __str__(self) -> str:
        return f"{self.answer}: {', '.join(map(str, self.reasons))}"


def attribution(
    value: str, case: Case, scores: Contributions, top: int | None, parts: list[Reason]
) -> Attribution:
    """Return the attribution of an input, shown as ``value``, with ``top`` reasons or all.

    Raises:
        ArgumentError: a contribution is NaN or infinite.
    """
    if not all(x.isfinite().all() for x in (scores.members, scores.edges)):
        raise ArgumentError(
            "run",
            expected="a model whose predictions without a part are finite numbers",
            got="NaN or infinite effects of parts",
            remedy="train again, for example with a smaller learning rate",
        )
    score = "log-odds of the prediction" if case.is_odds else "predicted value"
    if case.claim:
        score = f"log-odds of the {case.claim.score}" if case.is_odds else case.claim.score
    meaning = f"decrease of the {score} without the part"
    if scores.method == "removed" and case.replacement:
        meaning = f"decrease of the {score} with {case.replacement} instead of the part"
    elif scores.method in ("attention", "rollout"):
        meaning = f"{scores.method} of the part, as a fraction of all weights"
    elif scores.method not in ("removed", "left_out"):
        meaning = f"contribution of the part to the {score}, by {scores.method.replace('_', ' ')}"
    if case.claim:
        meaning += f"; {case.claim.note}"
    reasons = reasons_of(case, scores)[:top]
    return Attribution(
        value, case.answer, reasons, scores.method, meaning, parts, case=case, scores=scores
    )


def reasons_of(case: Case, scores: Contributions) -> list[Reason]:
    """Return the edges, if the case has ``by_edge``, or members by absolute contribution."""
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
            reasons.append(Reason(name + _relation(case, node, neighbour), value))
    else:
        members = {
            member: float(scores.members[member])
            for member in listed(case).nonzero()[:, 0].tolist()
        }
        own_nodes = [] if case.own is None or not case.by_edge else case.own.tolist()
        reasons += [
            Reason(case.labels[member] + _relation(case, member, *own_nodes), value)
            for member, value in members.items()
        ]
        for ends, value in edges if case.by_edge else ():
            # A node that acts on the answer through this edge alone is named instead of the edge.
            same = (math.isclose(members.get(end, math.nan), value, rel_tol=1e-3) for end in ends)
            if not any(same):
                name = "-".join(case.labels[end] for end in ends)
                reasons.append(Reason(name + _relation(case, *ends), value))
    reasons = [reason for reason in reasons if reason.contribution != 0.0]
    return sorted(reasons, key=lambda reason: -abs(reason.contribution))


def _relation(case: Case, member: int, *others: int) -> str:
    """Return the names of the edges between a member and others in parentheses, "" without any."""
    ends = [(min(member, other), max(member, other)) for other in others]
    names = dict.fromkeys(case.edge_names[pair] for pair in ends if pair in case.edge_names)
    return f" ({', '.join(names)})" if names else ""
