"""Heads for text classification, token classification and question answering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Source, fill, linear
from edgewise.layers import (
    ClassificationHead,
    LastTokenHead,
    TextClassifier,
    TextModel,
    TokenClassificationHead,
    TokenClassifier,
)


@dataclass(frozen=True)
class LabelHead:
    """Head of a checkpoint: the linear layer ``output``, and ``dense`` before it if any."""

    output: str
    dense: str = ""
    of_tokens: bool = False
    act: str = "tanh"

    def attach(
        self, backbone: TextModel, sources: Mapping[str, Source], checkpoint: Checkpoint
    ) -> tuple[TextClassifier | TokenClassifier, dict[str, Source]]:
        """Return the backbone with this head, and the sources of both."""
        classes, width = checkpoint.tensors[f"{self.output}.weight"].shape
        dropout = _dropout(checkpoint)
        sources = {f"trunk.{name}": source for name, source in sources.items()}
        model: TextClassifier | TokenClassifier
        if self.of_tokens:
            model = TokenClassifier(
                backbone, TokenClassificationHead(width, classes, dropout=dropout)
            )
            sources |= linear("head.1", self.output)
        elif self.dense:
            head = ClassificationHead(width, classes, act=self.act, dropout=dropout)
            model = TextClassifier(backbone, head)
            sources |= linear("head.dense", self.dense) | linear("head.output", self.output)
        else:
            model = TextClassifier(backbone, LastTokenHead(width, classes, dropout=dropout))
            sources |= linear("head.output", self.output, bias=False)
        # The start and end logits of question answering have no class names.
        if self.output != "qa_outputs":
            model.labels = checkpoint.labels(classes)
        return model, sources


def fill_with_head(
    model: TextModel,
    head: LabelHead | None,
    sources: dict[str, Source],
    checkpoint: Checkpoint,
    *,
    unused: Iterable[str],
) -> nn.Module:
    """Copy the tensors of a checkpoint into a model, with its classification head if it has one."""
    classifier: nn.Module = model
    if head is not None:
        classifier, sources = head.attach(model, sources, checkpoint)
    fill(classifier, sources, checkpoint, unused=unused)
    return classifier


def label_head(checkpoint: Checkpoint) -> LabelHead | None:
    """Return the classification head of a checkpoint, found by tensor names, or None."""
    names = checkpoint.tensors
    if "classifier.out_proj.weight" in names:
        is_big_bird = checkpoint["model_type"] == "big_bird"
        act = checkpoint.activation("hidden_act") if is_big_bird else "tanh"
        return LabelHead("classifier.out_proj", "classifier.dense", act=act)
    if "classifier.weight" in names:
        architectures = " ".join(checkpoint.config.get("architectures") or ())
        pooled = "pooler.dense.weight" in names and "TokenClassification" not in architectures
        return LabelHead("classifier", "pooler.dense" if pooled else "", of_tokens=not pooled)
    if "qa_outputs.weight" in names:
        return LabelHead("qa_outputs", of_tokens=True)
    if "score.weight" in names:
        return LabelHead("score", of_tokens="score.bias" in names)
    return None


def _dropout(checkpoint: Checkpoint) -> float:
    for name in ("classifier_dropout", "hidden_dropout_prob"):
        if checkpoint.config.get(name) is not None:
            return float(checkpoint.config[name])
    return 0.0
