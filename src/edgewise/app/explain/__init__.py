"""Explanations of runs."""

from __future__ import annotations

from edgewise.app.explain.cases import cases
from edgewise.app.explain.fidelities import fidelities_for
from edgewise.app.explain.influence import Influence, changes, influence, removals
from edgewise.app.explain.pruned_runs import save_pruned
from edgewise.app.explain.reasons import all_attributions, attributions
from edgewise.app.explain.suggestion import Suggestion, suggest
from edgewise.explain.reasons import Attribution, Reason

__all__ = [
    "Attribution",
    "Influence",
    "Reason",
    "Suggestion",
    "all_attributions",
    "attributions",
    "cases",
    "changes",
    "fidelities_for",
    "influence",
    "removals",
    "save_pruned",
    "suggest",
]


def __dir__() -> list[str]:
    return __all__
