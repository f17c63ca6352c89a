"""Explanations of models and predictions, by recorded attention weights and by attributions."""

from __future__ import annotations

from edgewise.explain.attribution import Case, Claim, Contributions, contributions, without
from edgewise.explain.centrality import centralities
from edgewise.explain.edge_recovery import edge_recovery
from edgewise.explain.edges_left_out import outputs_left_out
from edgewise.explain.explanation import Explanation, explanation
from edgewise.explain.fidelity import Fidelity, fidelity
from edgewise.explain.figures import draw_head, draw_heads, draw_rollout, draw_statistics
from edgewise.explain.heads import (
    HeadStatistics,
    Observations,
    importance,
    masked_heads,
    observations,
    statistics,
)
from edgewise.explain.losses import recorded_batch
from edgewise.explain.model_attributions import attributions
from edgewise.explain.page import write_page
from edgewise.explain.pruning import layers_with_heads, least_important, prune
from edgewise.explain.record import LayerRecord, Recorded, record

__all__ = [
    "Case",
    "Claim",
    "Contributions",
    "Explanation",
    "Fidelity",
    "HeadStatistics",
    "LayerRecord",
    "Observations",
    "Recorded",
    "attributions",
    "centralities",
    "contributions",
    "draw_head",
    "draw_heads",
    "draw_rollout",
    "draw_statistics",
    "edge_recovery",
    "explanation",
    "fidelity",
    "importance",
    "layers_with_heads",
    "least_important",
    "masked_heads",
    "observations",
    "outputs_left_out",
    "prune",
    "record",
    "recorded_batch",
    "statistics",
    "without",
    "write_page",
]


def __dir__() -> list[str]:
    return __all__
