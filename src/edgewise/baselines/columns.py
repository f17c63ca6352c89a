"""Models of scikit-learn, one for each target column, for molecules, texts and nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edgewise.baselines.candidate import bounded_scores
from edgewise.data import Splits
from edgewise.recipes.recipe import Recipe
from edgewise.tasks import Regression

LINEAR = {False: "ridge regression", True: "logistic regression"}
"""Name of a linear model, by whether the target has classes."""


class Column(NamedTuple):
    """A target column: number of classes, 0 for a number, and number of outputs."""

    classes: int
    width: int


def columns_of(splits: Splits, recipe: Recipe) -> list[Column]:
    """Return the target columns; if the data do not describe their targets, return one column."""
    count = splits.model_arguments["out_width"]
    plain = Column(0, 1) if isinstance(recipe.task, Regression) else Column(count, count)
    return [Column(len(one.classes), one.width) for one in splits.targets] or [plain]


def linear_name(columns: Sequence[Column]) -> str:
    """Return the name of the linear models of some columns."""
    return " and ".join(LINEAR[kind] for kind in sorted({bool(one.classes) for one in columns}))


def linear_model(penalty: float, classes: int) -> Any:
    """Return a model with an L2 penalty: logistic regression, or ridge regression of a number."""
    from sklearn.linear_model import LogisticRegression, Ridge

    return LogisticRegression(C=1 / penalty, max_iter=1000) if classes else Ridge(alpha=penalty)


def fit_columns(
    make: Callable[[int], Any],
    columns: Sequence[Column],
    x: Any,
    target: np.ndarray,
    val: tuple[Any, np.ndarray] | None = None,
) -> Callable[[Any], Tensor]:
    """Fit one model per column, to the rows that have a value in this column.

    Args:
        make: function that returns a new model for a number of classes.
        columns: the columns.
        x: features of the training rows, ``[B, F]``, dense or sparse.
        target: values ``[B, T]``, NaN for a missing value.
        val: features and values of the validation rows, for models that stop early.

    Returns:
        Function from features ``[B, F]`` to the outputs ``[B, widths]``.
    """
    models = []
    for place, (classes, _) in enumerate(columns):
        x_known, y = _known(x, target[:, place])
        model = make(classes) if not classes or len(np.unique(y)) > 1 else _constant()
        given: dict[str, Any] = {}
        if getattr(model, "early_stopping", False):
            assert val is not None
            val_x, val_y = _known(val[0], val[1][:, place])
            given = {"X_val": val_x, "y_val": val_y}
            if not len(val_y):
                model.set_params(early_stopping=False, max_iter=model.max_iter // 10)
                given = {}
        models.append(model.fit(x_known, y, **given))

    def outputs(x: Any) -> Tensor:
        parts = zip(models, columns, strict=True)
        return torch.cat([_outputs(model, x, column) for model, column in parts], dim=1)

    return outputs


def _constant() -> Any:
    from sklearn.dummy import DummyClassifier

    return DummyClassifier()


def _known(x: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return the rows that have a value of the target."""
    known = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), dtype=bool)
    return x[known], y[known]


def _outputs(model: Any, x: Any, column: Column) -> Tensor:
    """Return the outputs of a target, ``[B, width]``."""
    if not column.classes:
        return torch.from_numpy(model.predict(x)).float()[:, None]
    scores = bounded_scores(model, x, column.classes)
    return scores if column.width > 1 else scores[:, 1:] - scores[:, :1]
