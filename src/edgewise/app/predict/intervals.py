"""Prediction intervals by split conformal prediction.

The half-width of the interval is a quantile of the absolute errors on the validation set. If new
rows come from the same distribution as the validation rows, the interval contains the true value
with at least the chosen probability, for any model. The best epoch was also chosen on the
validation set, which may make the interval too narrow, so the coverage on the test set is reported.

Papers: Papadopoulos et al., Inductive confidence machines for regression, 2002; Lei et al.,
Distribution-free predictive inference for regression, 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.app.files.targets import Target, split_outputs
from edgewise.app.train.held_out import HeldOut, read_held_out


class Interval(NamedTuple):
    """Prediction interval of a target, which ``covered`` of the ``tested`` test rows are in."""

    name: str
    half_width: float
    rows: int
    covered: int
    tested: int

    @property
    def coverage(self) -> float:
        """Fraction of the test rows inside of their interval; NaN without test rows."""
        return self.covered / self.tested if self.tested else math.nan


def intervals(
    folders: Sequence[Path], targets: Sequence[Target], level: float
) -> dict[str, Interval]:
    """Return the prediction interval of each numeric target, by name, from the run folder of each
    model of an ensemble.
    """
    numbers = [index for index, target in enumerate(targets) if not target.classes]
    if not 0 < level < 1 or not numbers:
        raise ArgumentError(
            "interval",
            expected="a probability between 0 and 1, for a run that predicts numbers",
            got=repr(level) if numbers else "a run that predicts classes only",
            remedy="choose for example 0.9" if numbers else "omit interval",
        )
    val, test = (read_held_out(folders, split, targets) for split in ("val", "test"))
    interval_of_target = {}
    for index in numbers:
        errors, tested = (_errors(rows, targets, index) for rows in (val, test))
        rank = math.ceil((len(errors) + 1) * level)
        if rank > len(errors):
            most = math.floor(1000 * len(errors) / (len(errors) + 1)) / 1000
            raise ArgumentError(
                "interval",
                expected=f"a probability of at most {most:.3f}, the limit for {len(errors)} "
                f"validation rows of {targets[index].name!r}",
                got=repr(level),
                remedy="choose a smaller probability, or train with more validation rows, for "
                "example with a larger data.val",
            )
        width = float(errors.sort().values[rank - 1])
        covered = int((tested <= width).sum())
        name = targets[index].name
        interval_of_target[name] = Interval(name, width, len(errors), covered, len(tested))
    return interval_of_target


def _errors(rows: HeldOut, targets: Sequence[Target], index: int) -> Tensor:
    """Return the absolute errors of one target, for the rows whose true value is known."""
    outputs = split_outputs(targets, rows.outputs)[index][:, 0]
    errors = (outputs.double() - rows.target[:, index].double()).abs()
    return errors[~torch.isnan(errors)]
