"""Description of target columns, which data, tasks, metrics, baselines and predictors share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Target(NamedTuple):
    """A column that the model predicts: a number, or one of several classes.

    A number has one output, in the unit of the column; two classes have one, the logit of the
    second class; more classes have one logit each. ``mean`` and ``std`` are those of the numbers in
    the training set, ``counts`` its examples per class.
    """

    name: str
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    std: float = 1.0
    counts: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Number of model outputs for this column."""
        return len(self.classes) if len(self.classes) > 2 else 1

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Target:
        """Create a target from the JSON form of ``_asdict()``."""
        lists = {name: tuple(record[name]) for name in ("classes", "counts")}
        return cls(**{**record, **lists})


def class_counts(classes: Tensor, num_classes: int) -> tuple[int, ...]:
    """Return the number of examples of each class, given the class index of each example."""
    return tuple(torch.bincount(classes, minlength=num_classes).tolist())


def split_outputs(targets: Sequence[Target], outputs: Tensor) -> tuple[Tensor, ...]:
    """Split the outputs of a model into the outputs ``[..., width]`` of each target."""
    split: tuple[Tensor, ...] = outputs.split([target.width for target in targets], dim=-1)
    return split


def probabilities(target: Target, outputs: Tensor) -> Tensor:
    """Return the class probabilities ``[..., classes]`` of logits ``[..., width]``."""
    if target.width > 1:
        return outputs.softmax(-1)
    second = outputs.sigmoid()
    return torch.cat([1 - second, second], dim=-1)


def mean_prediction(targets: Sequence[Target], outputs_of_models: Tensor) -> Tensor:
    """Average the numbers and the class probabilities of models, ``[models, M, widths]``, as
    outputs.
    """
    by_target = zip(targets, split_outputs(targets, outputs_of_models), strict=True)
    return torch.cat([_mean(target, outputs) for target, outputs in by_target], dim=-1)


def _mean(target: Target, outputs: Tensor) -> Tensor:
    if not target.classes:
        return outputs.mean(0)
    logs = probabilities(target, outputs).mean(0).clamp(min=torch.finfo(outputs.dtype).tiny).log()
    return logs if target.width > 1 else logs[..., 1:] - logs[..., :1]
