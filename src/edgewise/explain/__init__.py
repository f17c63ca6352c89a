"""Explanations of models: recorded attention weights, pages, figures and attention heads."""

from __future__ import annotations

from edgewise.explain.explanation import Explanation, explanation
from edgewise.explain.page import write_page
from edgewise.explain.record import LayerRecord, Recorded, record

__all__ = ["Explanation", "LayerRecord", "Recorded", "explanation", "record", "write_page"]


def __dir__() -> list[str]:
    return sorted(__all__)
