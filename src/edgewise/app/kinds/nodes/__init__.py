"""TODO."""

from __future__ import annotations

from edgewise.app.kinds.nodes.files import NodeFiles
from edgewise.app.kinds.nodes.planetoid import Planetoid
from edgewise.app.kinds.nodes.reasons import NodeCases
from edgewise.app.kinds.nodes.task import Consistency

__all__ = ["Consistency", "NodeCases", "NodeFiles", "Planetoid"]


def __dir__() -> list[str]:
    return __all__
