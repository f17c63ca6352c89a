"""Fidelity of attributions: effects of deleting the most important parts, or all other parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.explain.attribution import Case, Contributions, listed, named_pairs, without


@dataclass(frozen=True)
class Fidelity:
    """Change of a prediction if parts are deleted, in probability or in units of the property.

    The named parts are those that an attribution names as the most important ones.

    Attributes:
        plus: Fid+, the change if the named parts are deleted; higher is better.
        minus: Fid-, the change if all other parts are deleted; lower is better.
        parts: number of named parts.
        of: number of all parts that could be named.
    """

    plus: float
    minus: float
    parts: int
    of: int


def parts_of(case: Case, found: Contributions) -> tuple[Tensor, Tensor]:
    """Return the indices of the parts that may be named, and their contributions.

    If the case has ``by_edge``, the parts are edges, otherwise members. In a large graph, only
    edges at the node that the answer is about are named.
    """
    if not case.by_edge:
        chosen = listed(case).nonzero()[:, 0]
        return chosen, found.members[chosen]
    chosen = named_pairs(case, found.pairs)
    return chosen, found.edges[chosen]


def fidelity(
    case: Case,
    found: Contributions,
    *,
    fraction: float = 0.2,
    most: int = 10,
    random: torch.Generator | None = None,
) -> Fidelity | None:
    """Measure Fid+ and Fid- of an attribution (Amara et al., GraphFramEx, 2022).

    Args:
        case: the answer.
        found: contributions to its score.
        fraction: fraction of the parts that are named, at least one part.
        most: maximum number of named parts.
        random: generator that chooses the named parts at random, as a baseline; ``None`` names the
            parts with the highest contributions.

    Returns:
        The fidelity, or ``None`` for a case of fewer than two parts.

    """
    parts, values = parts_of(case, found)
    count = len(parts)
    if count < 2:
        return None
    size = min(max(1, round(fraction * count)), most, count - 1)
    if not case.is_odds:  # for a property, the sign of a change has no meaning
        values = values.abs()
    if random is None:
        order = values.argsort(descending=True, stable=True)
    else:
        order = torch.randperm(count, generator=random)
    with torch.no_grad():
        whole = _answer(case, case.score())
        plus = whole - _answer(case, _deleted(case, found, parts[order[:size]]))
        minus = whole - _answer(case, _deleted(case, found, parts[order[size:]]))
    if not case.is_odds:
        plus, minus = abs(plus), abs(minus)
    return Fidelity(plus, minus, size, count)


def _deleted(case: Case, found: Contributions, parts: Tensor) -> Tensor:
    if case.by_edge:
        return without(case, pairs=found.pairs[:, parts])
    gone = torch.zeros(len(case.labels), dtype=torch.bool)
    gone[parts] = True
    return without(case, gone)


def _answer(case: Case, score: Tensor) -> float:
    return float(score.sigmoid() if case.is_odds else score)
