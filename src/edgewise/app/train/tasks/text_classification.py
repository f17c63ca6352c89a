"""Text classification and tagging: output heads, cross-entropy and accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise.app.train.tasks.classification import Classification
from edgewise.app.train.tasks.text import text_model
from edgewise.layers import (
    ClassificationHead,
    TextClassifier,
    TokenClassificationHead,
    TokenClassifier,
)
from edgewise.layers.pooling import Pooling


@dataclass(frozen=True)
class TextClassification(Classification):
    """Classification of texts, with logits ``[B, classes]``.

    The model gets a head: :class:`edgewise.layers.TextClassifier`.

    Attributes:
        label_smoothing: see :class:`Classification`.
        pool: pooling of the token states of a text to one vector: ``"class"`` (the first state),
            ``"mean"`` or ``"max"``.
        dropout: dropout probability in the classification head.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> from edgewise.app.train import TextClassification
        >>> task, sizes = TextClassification(), {"out_width": 2, "longest_text": 10}
        >>> model = task.complete(models.bert(100), sizes)
        >>> model(layers.Tokens(torch.randint(100, (3, 10)))).shape
        torch.Size([3, 2])
    """

    pool: Pooling = "mean"
    dropout: float = 0.1

    takes: ClassVar[tuple[str, ...]] = ("longest_text", "out_width")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("task.dropout", self.dropout, "choose for example 0.1", least=0, below=1)

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        trunk = text_model(model, data_sizes)
        width, classes = trunk.width, data_sizes["out_width"]
        head = ClassificationHead(width, classes, pool=self.pool, dropout=self.dropout)
        return TextClassifier(trunk, head)


@dataclass(frozen=True)
class Tagging(Classification):
    """Classification of each word, with logits ``[W, classes]`` of the W words in a batch.

    The model gets a head: :class:`edgewise.layers.TokenClassifier`.

    Attributes:
        label_smoothing: see :class:`Classification`.
        dropout: dropout probability in the classification head.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> from edgewise.app.train import Tagging
        >>> task, sizes = Tagging(), {"out_width": 5, "longest_text": 10}
        >>> model = task.complete(models.bert(100), sizes)
        >>> model(layers.Tokens(torch.randint(100, (3, 10)))).shape  # each token is a word
        torch.Size([30, 5])
    """

    dropout: float = 0.1

    takes: ClassVar[tuple[str, ...]] = ("longest_text", "out_width")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("task.dropout", self.dropout, "choose for example 0.1", least=0, below=1)

    def complete(self, model: nn.Module, data_sizes: Mapping[str, int]) -> nn.Module:
        trunk = text_model(model, data_sizes)
        width, classes = trunk.width, data_sizes["out_width"]
        return TokenClassifier(trunk, TokenClassificationHead(width, classes, dropout=self.dropout))

    def per_example_metrics(self, outputs: Tensor, target: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        return {}  # Words of the same sentence are not independent.
