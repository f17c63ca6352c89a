"""Fidelity of attributions: effects of deleting the most important parts, or all other parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.explain.attribution import Case, Contributions, listed, named_pairs, without


@dataclass(frozen=True)
class Fidelity:
    """Change of a prediction if parts are deleted, in probability or in units of the property.

    Attributes:
        plus: Fid+, the change without the named (most important) parts; higher is better.
        minus: Fid-, the change without all other parts; lower is better.
        parts: number of named parts.
        of: number of all parts that could be named.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs, layers
        >>> layer, x = layers.MultiHeadAttention(8, heads=2), torch.randn(3, 8)
        >>> case = explain.Case(lambda: layer(x, graphs.complete())[:1, 0], torch.arange(3), "abc")
        >>> fidelity = explain.fidelity(case, explain.contributions(case))
        >>> fidelity.parts, fidelity.of
        (1, 3)
    """

    plus: float
    minus: float
    parts: int
    of: int


def fidelity(
    case: Case,
    scores: Contributions,
    *,
    fraction: float = 0.2,
    most: int = 10,
    random: torch.Generator | None = None,
) -> Fidelity | None:
    """Measure Fid+ and Fid- of an attribution (Amara et al., GraphFramEx, 2022).

    The named parts are the ``fraction`` of highest contribution, at least one and at most ``most``,
    or random parts as a baseline. Parts against the answer are not named, because deleting them
    together with parts for it would cancel; for a property, parts are ranked by absolute
    contribution. The result is None for a case of fewer than two parts.
    """
    if case.by_edge:
        indices = named_pairs(case, scores.pairs)
        values = (scores.edges if case.is_odds else scores.strengths)[indices]
    else:
        indices = listed(case).nonzero()[:, 0]
        values = scores.members[indices]
    count = len(indices)
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
        prediction = _prediction(case, case.score())
        plus = prediction - _without(case, scores, indices[order[:size]])
        minus = prediction - _without(case, scores, indices[order[size:]])
    if not case.is_odds:
        plus, minus = abs(plus), abs(minus)
    return Fidelity(plus, minus, size, count)


def _without(case: Case, scores: Contributions, indices: Tensor) -> float:
    if case.by_edge:
        return _prediction(case, without(case, pairs=scores.pairs[:, indices]))
    removed = torch.zeros(len(case.labels), dtype=torch.bool)
    removed[indices] = True
    return _prediction(case, without(case, removed))


def _prediction(case: Case, score: Tensor) -> float:
    return float(score.sigmoid() if case.is_odds else score)
