"""Explanations of models and predictions, by recorded attention weights and by attributions."""

from __future__ import annotations

from edgewise.app.explain.cases import cases
from edgewise.app.explain.influence import Influence, centralities, changes, influence, removals
from edgewise.app.explain.pruned_runs import load_pruned, save_pruned
from edgewise.app.explain.reasons import Attribution, Reason, attributions
from edgewise.app.explain.structure import (
    Dependencies,
    Sentence,
    dependencies,
    draw_tree,
    edge_recovery,
)
from edgewise.app.explain.suggestion import Suggestion, suggest
from edgewise.app.kinds.nodes.reasons import NodeCases
from edgewise.explain.attribution import Case, Contributions, contributions, without
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
from edgewise.explain.page import write_page
from edgewise.explain.pruning import layers_with_heads, least_important, prune
from edgewise.explain.record import LayerRecord, Recorded, record

__all__ = [
    "Attribution",
    "Case",
    "Contributions",
    "Dependencies",
    "Explanation",
    "Fidelity",
    "HeadStatistics",
    "Influence",
    "LayerRecord",
    "NodeCases",
    "Observations",
    "Reason",
    "Recorded",
    "Sentence",
    "Suggestion",
    "attributions",
    "cases",
    "centralities",
    "changes",
    "contributions",
    "dependencies",
    "draw_head",
    "draw_heads",
    "draw_rollout",
    "draw_statistics",
    "draw_tree",
    "edge_recovery",
    "explanation",
    "fidelity",
    "importance",
    "influence",
    "layers_with_heads",
    "least_important",
    "load_pruned",
    "masked_heads",
    "observations",
    "outputs_left_out",
    "prune",
    "record",
    "recorded_batch",
    "removals",
    "save_pruned",
    "statistics",
    "suggest",
    "without",
    "write_page",
]


def __dir__() -> list[str]:
    return sorted(__all__)
