"""Semi-supervised consistency regularisation over several random augmentations of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, require
from edgewise.app.files.targets import Target
from edgewise.app.train.batches import UNLABELLED
from edgewise.app.train.task import Task

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Consistency(Task):
    r"""Cross-entropy of labelled nodes, plus a consistency loss over random views of all nodes.

    .. math::
        L = \frac1S \sum_s \mathrm{CE}(Z_s, Y)
            + \lambda \frac1{SN} \sum_s \sum_i \lVert \bar p_i' - p_{s,i} \rVert^2, \qquad
        \bar p_i' \propto \Bigl(\frac1S \sum_s p_{s,i}\Bigr)^{1/T}

    CE is the cross-entropy with the labels Y, and p are probabilities (the softmax of logits Z). In
    training, outputs are logits ``[N, S, classes]`` of S views (random augmentations) of N nodes;
    in evaluation, they are ``[N, classes]``. Targets are class indices ``[N]``, -100 for unlabelled
    nodes. The sharpened mean, p̄', is detached from the gradient.

    GRAND returns its own views, in which it drops random nodes. For other models, the views are the
    outputs of ``views`` calls, which differ by dropout: with one call, or without dropout, there is
    no consistency. A training batch needs at least one label.

    Paper: Feng et al., Graph random neural network for semi-supervised learning, 2020

    Attributes:
        weight: weight λ of the consistency loss.
        temperature: sharpening temperature T. Lower values give sharper targets.
        views: number of calls of the model in a training step.

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.nodes import Consistency
        >>> outputs, target = torch.zeros(3, 2, 4), torch.tensor([0, 1, -100])  # 3 nodes, 2 views
        >>> round(Consistency().loss(outputs, target).item(), 4)  # log(4)
        1.3863
    """

    weight: float = 1.0
    temperature: float = 0.5
    views: int = 1

    def __post_init__(self) -> None:
        check_range("task.weight", self.weight, "choose for example 1.0", least=0)
        check_range("task.temperature", self.temperature, "choose for example 0.5", above=0)
        check_range("task.views", self.views, "choose for example 2", least=1)

    def with_targets(
        self,
        targets: Sequence[Target],
        class_counts: Sequence[int] = (),  # noqa: ARG002
    ) -> Task:
        if targets:
            raise ArgumentError(
                "task",
                expected="classes to predict, for consistency of views",
                got=f"the numbers {', '.join(target.name for target in targets)}",
                remedy="use another recipe for numbers, such as nodes",
            )
        return self

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        if outputs.dim() == 2:
            return F.cross_entropy(outputs, target, ignore_index=UNLABELLED)
        outputs = outputs.flatten(1, -2)  # Several calls of a model that returns several views.
        views = outputs.shape[1]
        cross_entropy = F.cross_entropy(
            outputs.flatten(0, 1), target.repeat_interleave(views), ignore_index=UNLABELLED
        )
        probability = outputs.softmax(-1)
        sharp = probability.detach().mean(1) ** (1 / self.temperature)
        sharp = sharp / sharp.sum(-1, keepdim=True)
        consistency = (probability - sharp[:, None]).square().sum(-1).mean()
        return cross_entropy + self.weight * consistency

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="accuracy")
        from torchmetrics.classification import MulticlassAccuracy
        from torchmetrics.wrappers import LambdaInputTransformer

        accuracy = MulticlassAccuracy(average="micro", ignore_index=UNLABELLED, validate_args=False)
        return {"accuracy": LambdaInputTransformer(accuracy, transform_pred=_mean_view)}

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        is_labelled = target != UNLABELLED
        is_correct = _mean_view(outputs).argmax(-1) == target
        return {"target": target[is_labelled], "accuracy": is_correct[is_labelled]}


def _mean_view(outputs: Tensor) -> Tensor:
    """Return class probabilities ``[N, classes]`` of logits, averaged over views in training."""
    probability = outputs.softmax(-1)
    return probability.flatten(1, -2).mean(1) if outputs.dim() > 2 else probability
