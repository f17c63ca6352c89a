"""Cost model that estimates the seconds of each engine, to choose the fastest one for a call.

For each call, an engine returns its :data:`Work`: the name of its method of computation, and how
often each operation runs, such as gathering one element. The file ``costs.json`` in this folder
says how many seconds one such operation takes on each type of device, forward and backward
together. An estimate is the sum of counts times seconds. It only serves to compare engines.

The seconds for ``cpu`` are fitted to measurements by ``python benchmarks/planner.py``. Those for
``cuda`` are computed from a roofline model of a GPU. Each entry states the origin of its numbers,
and ``explain_plan`` prints a note if they are not measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

Work = tuple[str, dict[str, float]]
"""Name of a method of computation, such as "rows", and ``{operation: count}``."""

TABLE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Costs:
    """Seconds of each operation on one type of device."""

    origin: str
    measured: bool
    seconds: dict[str, dict[str, float]]

    def of(self, works: Iterable[Work]) -> list[float]:
        """Return the estimated seconds of each work; infinity if the method is unknown."""
        estimates = []
        for form, amounts in works:
            if form not in self.seconds:
                estimates.append(math.inf)
                continue
            per_operation, total = self.seconds[form], 0.0
            for name, amount in amounts.items():
                total += per_operation[name] * amount
            estimates.append(total)
        return estimates


COSTS = {kind: Costs(**costs) for kind, costs in json.loads(TABLE.read_text()).items()}
"""Dict from the names that :func:`entry_name` returns to costs."""

OTHERS = "cuda"
"""Type of device whose costs are used for types without an entry, which are mostly like GPUs."""


def entry_name(kind: str, dtype: torch.dtype) -> str:
    """Return the table's name for a device type and a dtype, such as "cpu, 16 bits"."""
    return f"{kind}, 16 bits" if dtype.itemsize == 2 else kind


def costs_on(device: torch.device, dtype: torch.dtype) -> Costs:
    """Return the costs for a device and dtype; those of float32 if there are none for 16 bits."""
    kind = device.type if device.type in COSTS else OTHERS
    return COSTS.get(entry_name(kind, dtype), COSTS[kind])


def doubt(device: torch.device, dtype: torch.dtype) -> str:
    """Return a note on the origin of the costs; an empty string if they were measured."""
    costs = costs_on(device, dtype)
    if device.type not in COSTS:
        return (
            f"(no costs are known for {device.type}; the estimates use costs from {costs.origin})"
        )
    return "" if costs.measured else f"(not measured; the estimates use costs from {costs.origin})"
