"""Standardisation of columns to mean 0 and standard deviation 1, saved with a trained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError, counted

ROUNDING = 1e-12
"""Ratio of standard deviation and mean up to which numbers are equal except for rounding."""


def is_constant(mean: Tensor, std: Tensor) -> Tensor:
    """Return whether numbers with this mean and standard deviation are equal up to rounding."""
    return std <= ROUNDING * mean.abs()


class Standardisation(NamedTuple):
    """Mean and standard deviation of each column, two float64 tensors ``[C]``."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, values: Tensor) -> Standardisation:
        """Compute mean and standard deviation of each column of ``[N, C]``."""
        values = values.double()
        return cls(values.mean(0), values.std(0, correction=0))

    def scaled(self, values: Tensor) -> Tensor:
        """Return the columns standardised, in float32; columns constant in training become 0."""
        columns = values.shape[-1]
        if {columns} != {len(self.mean), len(self.std)}:
            raise ArgumentError(
                "preprocessing.json",
                expected=f"mean and std of {counted(columns, 'column')}",
                got=f"{len(self.mean)} and {len(self.std)}",
                remedy="restore the file, install the version of RDKit with which the run was "
                "trained, or train again",
            )
        std = self.std.masked_fill(is_constant(self.mean, self.std), torch.inf)
        return ((values.double() - self.mean) / std).float()

    def record(self) -> dict[str, list[float]]:
        """Return mean and std as lists, for JSON; :meth:`read` is the inverse."""
        return {"mean": self.mean.tolist(), "std": self.std.tolist()}

    @classmethod
    def read(cls, record: Mapping[str, Sequence[float]]) -> Standardisation:
        """Create a scale from the result of :meth:`record`."""
        return cls(*(torch.tensor(record[name]).double() for name in ("mean", "std")))
