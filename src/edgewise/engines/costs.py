"""Cost model of the engines: seconds by type of device, from ``costs.json`` in the same folder.

For a problem, an engine returns its :data:`Work`: a form of computation and the amounts of its
operations, such as pairs, gathered elements or calls. The table has the seconds of one unit
of each, forward and backward together, by type of device. An estimate is the sum of amount times
seconds. Estimates serve only to compare engines with each other.

The costs of ``cpu`` are fitted to measurements by ``python benchmarks/planner.py``. Those of
``cuda`` come from a roofline model of a GPU until someone measures them. Every entry states the
origin of its numbers, and ``explain_plan`` says so if they are not measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

Work = tuple[str, dict[str, float]]
"""Name of a form of computation, and the amounts of work in it by name."""

TABLE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Costs:
    """Seconds of each form of computation on one type of device.

    Attributes:
        origin: source of the numbers.
        measured: whether they were measured on such a device.
        seconds: seconds of one unit, by form of computation and name of the amount.

    """

    origin: str
    measured: bool
    seconds: dict[str, dict[str, float]]

    def of(self, works: Iterable[Work]) -> list[float]:
        """Estimate seconds of forward and backward pass; infinite for forms not in the table."""
        estimates = []
        for form, amounts in works:
            if form not in self.seconds:
                estimates.append(math.inf)
                continue
            each, total = self.seconds[form], 0.0
            for name, amount in amounts.items():
                total += each[name] * amount
            estimates.append(total)
        return estimates


COSTS = {kind: Costs(**costs) for kind, costs in json.loads(TABLE.read_text()).items()}
"""Costs by the name of :func:`entry_name`."""

OTHERS = "cuda"
"""Entry used for devices that are not in the table, which are more like GPUs than like CPUs."""


def entry_name(kind: str, dtype: torch.dtype) -> str:
    """Return the name of the entry for a type of device and a dtype."""
    return f"{kind}, 16 bits" if dtype.itemsize == 2 else kind


def costs_on(device: torch.device, dtype: torch.dtype) -> Costs:
    """Return the costs for a device and dtype; float32 stands in for missing 16-bit dtypes."""
    kind = device.type if device.type in COSTS else OTHERS
    return COSTS.get(entry_name(kind, dtype), COSTS[kind])


def doubt(device: torch.device, dtype: torch.dtype) -> str:
    """Return a caveat about estimates on this device, empty if they were measured."""
    costs = costs_on(device, dtype)
    if device.type not in COSTS:
        return f"(no costs are known for {device.type}; these are from {costs.origin})"
    return "" if costs.measured else f"(not measured; these are from {costs.origin})"
