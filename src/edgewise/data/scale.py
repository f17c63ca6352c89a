"""Mean and deviation of columns, which a run keeps so that new rows are scaled in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Scale(NamedTuple):
    """Mean and deviation of columns ``[C]``, in float64."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, values: Tensor) -> Scale:
        """Those of the rows of ``[N, C]``."""
        values = values.double()
        return cls(values.mean(0), values.std(0, correction=0))

    def scaled(self, values: Tensor) -> Tensor:
        """The same columns with mean 0 and deviation 1, in float32."""
        return ((values.double() - self.mean) / self.std.clamp(min=1e-12)).float()

    def record(self) -> dict[str, list[float]]:
        """As JSON has it; :meth:`read` is the way back."""
        return {"mean": self.mean.tolist(), "std": self.std.tolist()}

    @classmethod
    def read(cls, record: Mapping[str, Sequence[float]]) -> Scale:
        """From :meth:`record`."""
        return cls(*(torch.tensor(record[name]).double() for name in ("mean", "std")))
