"""Explanations of models: recorded attention weights, pages, figures and attention heads."""

from __future__ import annotations

from edgewise.explain.explanation import Explanation, explanation
from edgewise.explain.figures import draw_head, draw_heads, draw_rollout
from edgewise.explain.heads import (
    HeadStatistics,
    Observations,
    importance,
    masked_heads,
    observations,
    statistics,
)
from edgewise.explain.page import write_page
from edgewise.explain.pruning import layers_with_heads, load_pruned, prune, save_pruned
from edgewise.explain.record import LayerRecord, Recorded, record
from edgewise.explain.suggestion import Suggestion, suggest

__all__ = [
    "Explanation",
    "HeadStatistics",
    "LayerRecord",
    "Observations",
    "Recorded",
    "Suggestion",
    "draw_head",
    "draw_heads",
    "draw_rollout",
    "explanation",
    "importance",
    "layers_with_heads",
    "load_pruned",
    "masked_heads",
    "observations",
    "prune",
    "record",
    "save_pruned",
    "statistics",
    "suggest",
    "write_page",
]


def __dir__() -> list[str]:
    return sorted(__all__)
