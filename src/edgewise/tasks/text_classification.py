"""A label for each text, or for each of its words: a head, cross-entropy and accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from edgewise.layers import PooledHead, TextScores, TokenHead, WordScores
from edgewise.layers.pooling import Pooling
from edgewise.ranges import check_share
from edgewise.tasks.classification import Classification
from edgewise.tasks.text import text_model


@dataclass(frozen=True)
class TextClassification(Classification):
    """Outputs are scores ``[B, classes]`` of texts; :class:`edgewise.layers.PooledHead` makes them.

    Attributes:
        label_smoothing: see :class:`Classification`.
        pool: which states of a text become one: ``class`` takes the first, or ``mean``, ``max``.
        dropout: in the head.

    """

    pool: Pooling = "mean"
    dropout: float = 0.1

    takes: ClassVar[tuple[str, ...]] = ("longest", "out_width")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("task.dropout", self.dropout, "choose for example 0.1")

    def complete(self, model: nn.Module, told: Mapping[str, int]) -> nn.Module:
        trunk = text_model(model, told)
        widths = trunk.embedding.tokens.embedding_dim, told["out_width"]
        return TextScores(trunk, PooledHead(*widths, pool=self.pool, dropout=self.dropout))


@dataclass(frozen=True)
class Tagging(Classification):
    """Outputs are scores ``[W, classes]`` of all words of a batch; so is the accuracy.

    Attributes:
        label_smoothing: see :class:`Classification`.
        dropout: in the head.

    """

    dropout: float = 0.1

    takes: ClassVar[tuple[str, ...]] = ("longest", "out_width")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("task.dropout", self.dropout, "choose for example 0.1")

    def complete(self, model: nn.Module, told: Mapping[str, int]) -> nn.Module:
        trunk = text_model(model, told)
        widths = trunk.embedding.tokens.embedding_dim, told["out_width"]
        return WordScores(trunk, TokenHead(*widths, dropout=self.dropout))
