"""Attention over one graph that is divided among processes (``torch.distributed``)."""

from __future__ import annotations

from edgewise._utils.errors import ProcessError
from edgewise.distributed.attention import attend, partition
from edgewise.distributed.exchange import communicating
from edgewise.distributed.partitions import Partition, Report, Traffic

__all__ = [
    "Partition",
    "ProcessError",
    "Report",
    "Traffic",
    "attend",
    "communicating",
    "partition",
]


def __dir__() -> list[str]:
    return __all__
