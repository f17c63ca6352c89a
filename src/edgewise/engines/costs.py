"""Cost model of the engines: seconds by type of device, from ``costs.json`` in the same folder.

For a problem, an engine returns its :data:`Work`: a form of computation, and the amount of each
operation, such as pairs, gathered elements or calls. For each type of device, the table has the
seconds per unit of an operation, forward and backward together. An estimate is the sum of amount
times seconds, and only serves to compare engines.

The costs of ``cpu`` are fitted to measurements by ``python benchmarks/planner.py``. The costs of
``cuda`` come from a roofline model of a GPU. Every entry states the origin of its numbers, and
``explain_plan`` prints a caveat if the numbers are not measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

Work = tuple[str, dict[str, float]]
"""Name of a form of computation, and its operation counts, as ``{operation: count}``."""

TABLE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Costs:
    """Seconds of each form of computation on one type of device.

    Attributes:
        origin: source of the numbers.
        measured: whether the numbers were measured on a device of this type.
        seconds: seconds per unit, by form of computation and name of the operation.

    """

    origin: str
    measured: bool
    seconds: dict[str, dict[str, float]]

    def of(self, works: Iterable[Work]) -> list[float]:
        """Return the estimated seconds of forward and backward pass; infinity without costs."""
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
"""Costs by entry name; see :func:`entry_name`."""

OTHERS = "cuda"
"""Entry for devices that are not in the table, because they resemble GPUs more than CPUs."""


def entry_name(kind: str, dtype: torch.dtype) -> str:
    """Return the name of the entry for a type of device and a dtype."""
    return f"{kind}, 16 bits" if dtype.itemsize == 2 else kind


def costs_on(device: torch.device, dtype: torch.dtype) -> Costs:
    """Return the costs for a device and dtype; float32 stands in for missing 16-bit dtypes."""
    kind = device.type if device.type in COSTS else OTHERS
    return COSTS.get(entry_name(kind, dtype), COSTS[kind])


def doubt(device: torch.device, dtype: torch.dtype) -> str:
    """Return a caveat about estimates on this device; empty if the costs were measured."""
    costs = costs_on(device, dtype)
    if device.type not in COSTS:
        return f"(no costs are known for {device.type}; these are from {costs.origin})"
    return "" if costs.measured else f"(not measured; these are from {costs.origin})"
