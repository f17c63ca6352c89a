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
    """Base of predictors of all targets of a run: numbers, and classes with probabilities.

    For a target of classes, the prediction has the most probable class and ``P(NAME=CLASS)``, the
    probability of the second of two classes or of each of several classes. An ensemble of models
    with different seeds adds the standard deviation over its models, as ``NAME_std``.
    """

    task = PropertyPrediction
    bounds = -math.inf, math.inf
    """Smallest and largest possible number."""

    def set_up(self) -> None:
        self.targets = self.preprocessing.targets
        self.unit: dict[str, str] = {}

    def called(self, *inputs: Any, **keywords: Any) -> tuple[Tensor, Tensor | None]:
        """Call the model, and return its outputs and those of each model of an ensemble.

        Args:
            inputs: positional arguments of the model.
            keywords: keyword arguments of the model.

        Returns:
            Outputs ``[M, K]`` for M examples and K output columns; and ``[models, M, K]`` for an
            ensemble, or ``None`` for a single model.
        """
        # Explanations call this method with gradients.
        outputs = self.model(*inputs, **keywords).detach()
        if not isinstance(self.model, Ensemble):
            return outputs, None
        return outputs, self.model.each(*inputs, **keywords).detach()

    def described(self, outputs: Tensor, each: Tensor | None, interval: float) -> list[Answer]:
        """Return the properties of each input as a dict.

        Args:
            outputs: outputs of the model for M inputs, ``[M, K]`` with K output columns.
            each: outputs of each model of an ensemble, ``[models, M, K]``; else ``None``.
            interval: probability with which the interval from ``NAME_low`` to ``NAME_high``
                contains the true number; 0 for no interval.
        """
        widths = self.intervals(interval) if interval else {}
        columns: dict[str, list[Any]] = {}
        parts = split_outputs(self.targets, outputs)
        spread = parts if each is None else split_outputs(self.targets, each)
        for target, own, members in zip(self.targets, parts, spread, strict=True):
            columns |= _columns(target, own)
            if each is not None:
                columns |= _spread(target, members)
            if target.name in widths:
                columns |= self._bounds(columns[target.name], widths[target.name])
        rows = zip(*columns.values(), strict=True)
        answers: list[Answer] = [dict(zip(columns, row, strict=True)) for row in rows]
        return [{**answer, **self.unit} for answer in answers]

    def intervals(self, level: float) -> dict[str, Interval]:
        """Return the prediction interval of each number, with its coverage on the test set.

        Args:
            level: probability of the interval, such as 0.9.

        Raises:
            ArgumentError: see :func:`edgewise.app.predict.intervals.intervals`.
        """
        folders = RunFolder(self.folder).runs() or [self.folder]
        return intervals(folders, self.targets, level)

    def notes(self, options: Mapping[str, Any]) -> list[str]:
        level = options.get("interval")
        return [
            f"{name}: interval ±{rounded(found.half_width)} from {found.rows} validation rows; it "
            f"contains {found.covered} of {found.tested} test rows ({100 * found.coverage:.1f} %)"
            for name, found in (self.intervals(level) if level else {}).items()
        ]

    def _bounds(self, numbers: list[float], interval: Interval) -> dict[str, list[Any]]:
        """Return the columns ``NAME_low`` and ``NAME_high`` of a prediction interval.

        Args:
            numbers: predicted number of each input.
            interval: prediction interval of the target NAME.
        """
        low, high = self.bounds
        return {
            f"{interval.name}_low": [max(low, one - interval.half_width) for one in numbers],
            f"{interval.name}_high": [min(high, one + interval.half_width) for one in numbers],
        }


def _keys(target: Target) -> tuple[str, ...]:
    """Return the names of probability columns: only the second of two classes, or all."""
    shown = target.classes if target.width > 1 else target.classes[1:]
    return tuple(f"P({target.name}={one})" for one in shown)


def _columns(target: Target, outputs: Tensor) -> dict[str, list[Any]]:
    """Return the predictions of one target as table columns.

    Args:
        target: description of the predicted quantity.
        outputs: output columns of this target, one row for each input.

    Returns:
        Columns by name: the number, or the most probable class and the probabilities.
    """
    if not target.classes:
        return {target.name: outputs[:, 0].tolist()}
    chances, keys = probabilities(target, outputs), _keys(target)
    best = [target.classes[label] for label in chances.argmax(-1).tolist()]
    shown = chances.T[-len(keys) :].tolist()
    return {target.name: best, **dict(zip(keys, shown, strict=True))}


def _spread(target: Target, outputs: Tensor) -> dict[str, list[Any]]:
    """Return the standard deviations over the models of an ensemble, as table columns.

    Args:
        target: description of the predicted quantity.
        outputs: output columns of this target, ``[models, M, width]`` for M inputs.
    """
    values = probabilities(target, outputs) if target.classes else outputs
    names = _keys(target) if target.classes else (target.name,)
    stds = values.std(0).unbind(-1)[-len(names) :]
    return {f"{name}_std": std.tolist() for name, std in zip(names, stds, strict=True)}
