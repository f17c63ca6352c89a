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
    """Prediction interval of a target.

    Attributes:
        name: name of the target.
        half_width: half of the width, in the unit of the target.
        rows: number of validation rows from which the interval was computed.
        covered, tested: number of test rows whose true value lies in the interval, and number of
            all test rows.
    """

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
    """Return the prediction interval of each numeric target, by name.

    Args:
        folders: run folders (files of a trained model), one for each model of an ensemble.
        targets: descriptions of the predicted quantities.
        level: probability of the interval, such as 0.9.

    Raises:
        ArgumentError: the level is not between 0 and 1, no target is a number, or there are too few
            validation rows for the level.
        MissingDataError: the run has no saved validation errors, because it was pruned
            without the data of its training.
    """
    numbers = [place for place, target in enumerate(targets) if not target.classes]
    if not 0 < level < 1 or not numbers:
        raise ArgumentError(
            "interval",
            expected="a probability between 0 and 1, for a run that predicts numbers",
            got=repr(level) if numbers else "a run that predicts classes only",
            remedy="choose for example 0.9" if numbers else "omit interval",
        )
    val, test = (read_held_out(folders, split, targets) for split in ("val", "test"))
    found = {}
    for place in numbers:
        errors, tested = (_errors(part, targets, place) for part in (val, test))
        rank = math.ceil((len(errors) + 1) * level)
        if rank > len(errors):
            most = math.floor(1000 * len(errors) / (len(errors) + 1)) / 1000
            raise ArgumentError(
                "interval",
                expected=f"a probability of at most {most:.3f}, the limit for {len(errors)} "
                f"validation rows of {targets[place].name!r}",
                got=repr(level),
                remedy="choose a smaller probability, or train with more validation rows, for "
                "example with a larger data.val",
            )
        width = float(errors.sort().values[rank - 1])
        covered = int((tested <= width).sum())
        name = targets[place].name
        found[name] = Interval(name, width, len(errors), covered, len(tested))
    return found


def _errors(rows: HeldOut, targets: Sequence[Target], place: int) -> Tensor:
    """Return the absolute errors of the predictions of one target, without missing values.

    Args:
        rows: outputs and true values of the examples.
        targets: descriptions of all predicted quantities.
        place: index of the target in ``targets``.

    Returns:
        One error for each example whose true value is known.
    """
    outputs = split_outputs(targets, rows.outputs)[place][:, 0]
    errors = (outputs.double() - rows.target[:, place].double()).abs()
    return errors[~torch.isnan(errors)]
