"""Explanations of models: recorded attention weights, figures and attention heads."""

from __future__ import annotations

from edgewise.explain.attribution import Case, Contributions, contributions, without
from edgewise.explain.cases import NodeCases, cases
from edgewise.explain.edges_left_out import outputs_left_out
from edgewise.explain.fidelity import Fidelity, fidelity
from edgewise.explain.reasons import Attribution, Reason, attributions
from edgewise.explain.record import LayerRecord, Recorded, record

__all__ = [
    "Attribution",
    "Case",
    "Contributions",
    "Fidelity",
    "LayerRecord",
    "NodeCases",
    "Reason",
    "Recorded",
    "attributions",
    "cases",
    "contributions",
    "fidelity",
    "outputs_left_out",
    "record",
    "without",
]


def __dir__() -> list[str]:
    return sorted(__all__)
