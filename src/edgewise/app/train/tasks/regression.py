"""Regression: squared, absolute or Huber loss; MAE, RMSE and R²."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_range, check_same_shape
from edgewise._utils.errors import ArgumentError, require
from edgewise.app.files.targets import Target
from edgewise.app.train.task import Task

if TYPE_CHECKING:
    from torchmetrics import Metric

Loss = Literal["mse", "mae", "huber"]


@dataclass(frozen=True)
class Regression(Task):
    """Regression, with outputs and targets ``[M, num_targets]`` of M examples.

    For a data set with a :class:`edgewise.app.train.splits.TargetScale`, the network predicts
    standardised values, which :class:`edgewise.app.train.TargetScaling` converts to the unit of the
    targets. The learning rate then does not depend on the unit.

    Attributes:
        kind: loss function, one of ``"mse"``, ``"mae"`` and ``"huber"``.
        delta: threshold of the Huber loss, in the unit of the targets.

    Example:
        >>> import torch
        >>> from edgewise.app.train import Regression
        >>> outputs, target = torch.tensor([[1.0], [3.0]]), torch.tensor([[2.0], [5.0]])
        >>> Regression().loss(outputs, target)
        tensor(2.5000)
        >>> Regression("mae").loss(outputs, target)
        tensor(1.5000)
    """

    kind: Loss = "mse"
    delta: float = 1.0

    def __post_init__(self) -> None:
        check_choice("task.kind", self.kind, get_args(Loss))
        check_range(
            "task.delta", self.delta, "choose roughly the size of an acceptable error", above=0
        )

    def with_targets(
        self,
        targets: Sequence[Target],
        class_counts: Sequence[int] = (),  # noqa: ARG002
    ) -> Task:
        if len(targets) > 1 or any(target.classes for target in targets):
            raise ArgumentError(
                "task",
                expected="tasks.PropertyPrediction, for classes or several target columns",
                got=f"tasks.Regression, for {', '.join(one.name for one in targets)}",
                remedy="use the recipe molecules, name one column of numbers with data.target, or "
                "set data.task_type to regression",
            )
        return self

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return self._losses_of(outputs, target).mean()

    def _losses_of(self, outputs: Tensor, target: Tensor, std: float = 1.0) -> Tensor:
        """Return the loss of each number, relative to a standard deviation."""
        check_same_shape(outputs, target)
        # Errors are divided before they are squared, so that small units do not underflow.
        errors = (outputs - target) / std
        if self.kind == "mse":
            return errors.square()
        zero = torch.zeros_like(errors)
        if self.kind == "mae":
            return F.l1_loss(errors, zero, reduction="none")
        return F.huber_loss(errors, zero, delta=self.delta / std, reduction="none")

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="errors of a regression")
        from edgewise.app.train.tasks.regression_metrics import R2, AbsoluteError, RootSquaredError

        return {"rmse": RootSquaredError(), "mae": AbsoluteError(), "r2": R2()}

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        check_same_shape(outputs, target)
        errors = (outputs.double() - target.double()).flatten(1)
        squares, sizes = errors.square().mean(1), errors.abs().mean(1)
        return {"target": target.flatten(1).mean(1), "rmse": squares, "mae": sizes}
