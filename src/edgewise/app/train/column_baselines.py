"""Baselines that fit a model of scikit-learn for each target column of a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor

from edgewise.app.train.baseline import bounded_scores
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.app.train.tasks.regression import Regression

LINEAR = {False: "ridge regression", True: "logistic regression"}
"""Name of the linear model for a target with classes (True) or with numbers (False)."""


class Column(NamedTuple):
    """Target column: number of classes, 0 for numbers, and number of outputs."""

    classes: int
    width: int


def columns_of(splits: Splits, recipe: Recipe) -> list[Column]:
    """Return the target columns of the data; one column if the data do not describe them."""
    count = splits.model_arguments["out_width"]
    plain = Column(0, 1) if isinstance(recipe.task, Regression) else Column(count, count)
    return [Column(len(target.classes), target.width) for target in splits.targets] or [plain]


def linear_name(columns: Sequence[Column]) -> str:
    """Return the name of the linear models for these columns, such as "ridge regression"."""
    return " and ".join(
        LINEAR[kind] for kind in sorted({bool(column.classes) for column in columns})
    )


def linear_model(penalty: float, classes: int) -> Any:
    """Return logistic regression, or ridge regression if ``classes`` is 0, with an L2 penalty."""
    return LogisticRegression(C=1 / penalty, max_iter=1000) if classes else Ridge(alpha=penalty)


def fit_columns(
    make: Callable[[int], Any],
    columns: Sequence[Column],
    x: Any,
    target: np.ndarray,
    val: tuple[Any, np.ndarray] | None = None,
) -> Callable[[Any], Tensor]:
    """Fit a model for each target column to the rows that have its value, and return the function
    from features to all outputs. Numbers are standardised, because trees have absolute tolerances.
    """
    fitted = []
    for index, column in enumerate(columns):
        classes = column.classes
        x_known, y = _known(x, target[:, index])
        mean, std = (0.0, 1.0) if classes else (y.mean(), y.std() or 1.0)
        model = make(classes) if not classes or len(np.unique(y)) > 1 else DummyClassifier()
        validation: dict[str, Any] = {}
        if getattr(model, "early_stopping", False):
            assert val is not None
            val_x, val_y = _known(val[0], val[1][:, index])
            validation = {"X_val": val_x, "y_val": val_y if classes else (val_y - mean) / std}
            if not len(val_y):
                model.set_params(early_stopping=False, max_iter=model.max_iter // 10)
                validation = {}
        model.fit(x_known, y if classes else (y - mean) / std, **validation)
        fitted.append((model, column, mean, std))

    def outputs(x: Any) -> Tensor:
        scaled = (_outputs(model, x, column) * std + mean for model, column, mean, std in fitted)
        return torch.cat([*scaled], dim=1)

    return outputs


def _known(x: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the features and values of the examples whose value is not missing."""
    has_value = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), dtype=bool)
    return x[has_value], y[has_value]


def _outputs(model: Any, x: Any, column: Column) -> Tensor:
    """Return the outputs of a fitted model for a target column, ``[B, width]``."""
    if not column.classes:
        return torch.from_numpy(model.predict(x)).double()[:, None]
    scores = bounded_scores(model, x, column.classes)
    return scores if column.width > 1 else scores[:, 1:] - scores[:, :1]
