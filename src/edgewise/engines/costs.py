"""What engines cost: seconds by kind of device, in ``costs.json`` beside this file.

An engine says what it does for a problem (:data:`Work`): a form of computation, and how much of
each thing that takes time, such as pairs, gathered elements or calls. The table says what one of
each takes, forward and backward, on a kind of device; estimates are the sum of the products. They
are there to compare engines with each other, no more.

The numbers of ``cpu`` are fitted to measurements by ``python benchmarks/planner.py``; those of
``cuda`` follow from the roofline of a GPU until someone measures them there. Every entry says where
its numbers are from, and ``explain_plan`` repeats it where that is not a measurement.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

Work = tuple[str, dict[str, float]]
"""A form of computation, and the amounts of what takes time in it, by name."""

TABLE = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Costs:
    """Seconds of each form of computation on a kind of device.

    Attributes:
        origin: where the numbers are from.
        measured: whether on such a device.
        seconds: by form, then by name.

    """

    origin: str
    measured: bool
    seconds: dict[str, dict[str, float]]

    def of(self, works: Iterable[Work]) -> list[float]:
        """Estimates of forward and backward; infinite where nothing computes such a form there."""
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
"""By kind of device, and by kind and type where 16 bits have numbers of their own."""

OTHERS = "cuda"
"""What stands for a device that the table does not have: more like a GPU than like a CPU."""


def entry_name(kind: str, dtype: torch.dtype) -> str:
    """The table's name for numbers that were measured with tensors of this type."""
    return f"{kind}, 16 bits" if dtype.itemsize == 2 else kind


def costs_on(device: torch.device, dtype: torch.dtype) -> Costs:
    """The costs for tensors of this type on this device; of 32 bits where 16 have no entry."""
    kind = device.type if device.type in COSTS else OTHERS
    return COSTS.get(entry_name(kind, dtype), COSTS[kind])


def doubt(device: torch.device, dtype: torch.dtype) -> str:
    """What there is to say against the estimates on this device; nothing where it was measured."""
    costs = costs_on(device, dtype)
    if device.type not in COSTS:
        return f"(no costs are known for {device.type}; these are from {costs.origin})"
    return "" if costs.measured else f"(not measured; these are from {costs.origin})"
