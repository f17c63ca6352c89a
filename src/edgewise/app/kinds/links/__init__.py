"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.links.data import EdgeList, EgoFacebook
from edgewise.app.kinds.links.task import LinkPrediction

__all__ = ["EdgeList", "EgoFacebook", "LinkPrediction"]


def __dir__() -> list[str]:
    return __all__
