"""Contrastive learning on two views of each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import require
from edgewise.app.train.task import Task
from edgewise.app.train.tasks.text import text_model
from edgewise.layers import Pool, TextClassifier
from edgewise.layers.pooling import Pooling

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Contrastive(Task):
    r"""Contrastive loss NT-Xent; the two views of an example are for example halves of a text.

    .. math::
        L = -\frac1M \sum_i \log
            \frac{e^{\cos(z_i, z_{t_i}) / T}}{\sum_{j \ne i} e^{\cos(z_i, z_j) / T}}

    Outputs ``[M, width]`` are the vectors of the M views in a batch. Targets ``[M]`` are, for each
    view i, the index :math:`t_i` of the other view of the same example. All other views of the
    batch are negatives. ``accuracy`` is the fraction of views i whose most similar view is
    :math:`t_i`. It is lower for larger batches, because they have more negatives.

    Papers: Chen et al., A simple framework for contrastive learning of visual representations, 2020
    (the loss); Giorgi et al., DeCLUTR: deep contrastive learning for unsupervised textual
    representations, 2021 (two parts of a text)

    Attributes:
        temperature: temperature T. Lower values weight the nearest negatives more.
        pool: pooling of the token states of a text to one vector: ``"class"`` (the first state),
            ``"mean"`` or ``"max"``.

    Example:
        >>> import torch
        >>> from edgewise.app.kinds.language import Contrastive
        >>> views = torch.eye(4)[[0, 1, 0, 1]]  # texts 0 and 1, twice
        >>> float(Contrastive(temperature=0.1).loss(views, torch.tensor([2, 3, 0, 1]))) < 0.01
        True
    """

    temperature: float = 0.2
    pool: Pooling = "mean"

    takes: ClassVar[tuple[str, ...]] = ("longest_text",)

    def __post_init__(self) -> None:
        check_range("task.temperature", self.temperature, "choose for example 0.2", above=0)
        check_choice("task.pool", self.pool, get_args(Pooling))

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        return TextClassifier(text_model(model, data_sizes), Pool(self.pool))

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(_similarities(outputs) / self.temperature, target)

    def metrics(self) -> dict[str, Metric]:
        require("torchmetrics", extra="train", purpose="accuracy")
        from torchmetrics.classification import MulticlassAccuracy
        from torchmetrics.wrappers import LambdaInputTransformer

        accuracy = MulticlassAccuracy(average="micro", validate_args=False)
        return {"accuracy": LambdaInputTransformer(accuracy, transform_pred=_nearest)}


def _similarities(outputs: Tensor) -> Tensor:
    """Return the cosine similarities ``[M, M]`` of all views, with -inf on the diagonal."""
    unit = F.normalize(outputs, dim=-1)
    return (unit @ unit.T).fill_diagonal_(-torch.inf)


def _nearest(outputs: Tensor) -> Tensor:
    """Return, for each view, the index of the most similar other view, ``[M]``."""
    return _similarities(outputs).argmax(-1)
