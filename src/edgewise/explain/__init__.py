"""Explanations of models: recorded attention weights, figures and attention heads."""

from __future__ import annotations

from edgewise.explain.attribution import Case, Contributions, contributions, without
from edgewise.explain.cases import NodeCases, cases
from edgewise.explain.edges_left_out import outputs_left_out
from edgewise.explain.fidelity import Fidelity, fidelity
from edgewise.explain.influence import Influence, centralities, influence, removals
from edgewise.explain.reasons import Attribution, Reason, attributions
from edgewise.explain.record import LayerRecord, Recorded, record

__all__ = [
    "Attribution",
    "Case",
    "Contributions",
    "Fidelity",
    "Influence",
    "LayerRecord",
    "NodeCases",
    "Reason",
    "Recorded",
    "attributions",
    "cases",
    "centralities",
    "contributions",
    "fidelity",
    "influence",
    "outputs_left_out",
    "record",
    "removals",
    "without",
]


def __dir__() -> list[str]:
    return sorted(__all__)
