"""Base class for predicting numbers and classes of molecules, texts and nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from edgewise._utils.digits import rounded
from edgewise.app.files.targets import Target, probabilities, split_outputs
from edgewise.app.predict.ensemble import Ensemble
from edgewise.app.predict.intervals import Interval, intervals
from edgewise.app.predict.predictor import Answer, Predictor
from edgewise.app.train.folder import RunFolder
from edgewise.app.train.tasks.property_prediction import PropertyPrediction


class Properties(Predictor):
    """Base of predictors of all targets of a run: numbers, and classes with probabilities
    ``P(NAME=CLASS)``. An ensemble adds its standard deviation, as ``NAME_std``.
    """

    task = PropertyPrediction
    bounds = -math.inf, math.inf
    """Smallest and largest possible number."""

    def set_up(self) -> None:
        self.targets = self.preprocessing.targets
        self.unit: dict[str, str] = {}

    def called(self, *inputs: Any, **keywords: Any) -> tuple[Tensor, Tensor | None]:
        """Return the outputs ``[M, K]`` of the model, and those of each model of an ensemble."""
        # Explanations call this method with gradients.
        outputs = self.model(*inputs, **keywords).detach()
        if not isinstance(self.model, Ensemble):
            return outputs, None
        return outputs, self.model.each(*inputs, **keywords).detach()

    def described(
        self, outputs: Tensor, member_outputs: Tensor | None, interval: float
    ) -> list[Answer]:
        """Return the properties of each input as a dict, from the results of :meth:`called`."""
        widths = self.intervals(interval) if interval else {}
        columns: dict[str, list[Any]] = {}
        values_of_targets = split_outputs(self.targets, outputs)
        spreads: dict[str, dict[str, list[Any]]] = {}
        if member_outputs is not None:
            members = split_outputs(self.targets, member_outputs)
            spreads = {t.name: _spread(t, m) for t, m in zip(self.targets, members, strict=True)}
        for target, values in zip(self.targets, values_of_targets, strict=True):
            columns |= _columns(target, values) | spreads.get(target.name, {})
            if target.name in widths:
                columns |= self._bounds(columns[target.name], widths[target.name])
        rows = zip(*columns.values(), strict=True)
        answers: list[Answer] = [dict(zip(columns, row, strict=True)) for row in rows]
        return [{**answer, **self.unit} for answer in answers]

    def intervals(self, level: float) -> dict[str, Interval]:
        """Return the prediction interval of each number, with its coverage on the test set."""
        folders = RunFolder(self.folder).runs() or [self.folder]
        return intervals(folders, self.targets, level)

    def notes(self, options: Mapping[str, Any]) -> list[str]:
        level = options.get("interval")
        return [
            f"{name}: interval ±{rounded(interval.half_width)} from {interval.rows} validation "
            f"rows; it contains {interval.covered} of {interval.tested} test rows "
            f"({100 * interval.coverage:.1f} %)"
            for name, interval in (self.intervals(level) if level else {}).items()
        ]

    def _bounds(self, numbers: list[float], interval: Interval) -> dict[str, list[Any]]:
        """Return the columns ``NAME_low`` and ``NAME_high`` of a prediction interval."""
        low, high = self.bounds
        return {
            f"{interval.name}_low": [max(low, number - interval.half_width) for number in numbers],
            f"{interval.name}_high": [
                min(high, number + interval.half_width) for number in numbers
            ],
        }


def _keys(target: Target) -> tuple[str, ...]:
    """Return the names of probability columns: only the second of two classes, or all."""
    shown = target.classes if target.width > 1 else target.classes[1:]
    return tuple(f"P({target.name}={label})" for label in shown)


def _columns(target: Target, outputs: Tensor) -> dict[str, list[Any]]:
    """Return table columns: the number, or the most probable class and the probabilities."""
    if not target.classes:
        return {target.name: outputs[:, 0].tolist()}
    chances, keys = probabilities(target, outputs), _keys(target)
    best = [target.classes[label] for label in chances.argmax(-1).tolist()]
    shown = chances.T[-len(keys) :].tolist()
    return {target.name: best, **dict(zip(keys, shown, strict=True))}


def _spread(target: Target, outputs: Tensor) -> dict[str, list[Any]]:
    """Return the standard deviations over the models of an ensemble, as table columns."""
    values = probabilities(target, outputs) if target.classes else outputs
    names = _keys(target) if target.classes else (target.name,)
    stds = values.std(0).unbind(-1)[-len(names) :]
    return {f"{name}_std": std.tolist() for name, std in zip(names, stds, strict=True)}
