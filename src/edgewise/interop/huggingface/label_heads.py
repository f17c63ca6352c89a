"""Heads for text classification, token classification and question answering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, linear
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
    """Classification head in a checkpoint.

    Attributes:
        output: name of the last linear layer.
        dense: name of the linear layer before it, applied to the class token; "" if none.
        of_tokens: whether the head classifies tokens instead of texts.
        act: activation function after ``dense``.
    """

    output: str
    dense: str = ""
    of_tokens: bool = False
    act: str = "tanh"

    def put_on(
        self, trunk: TextModel, pieces: Mapping[str, Piece], theirs: Checkpoint
    ) -> tuple[TextClassifier | TokenClassifier, dict[str, Piece]]:
        """Return the backbone ``trunk`` with this head, and the pieces of both."""
        weight = theirs.tensors[f"{self.output}.weight"]
        classes, width = weight.shape
        dropout = _dropout(theirs)
        pieces = {f"trunk.{name}": piece for name, piece in pieces.items()}
        model: TextClassifier | TokenClassifier
        if self.of_tokens:
            tokens = TokenClassificationHead(width, classes, dropout=dropout)
            model, pieces = TokenClassifier(trunk, tokens), pieces | linear("head.1", self.output)
        elif self.dense:
            head = ClassificationHead(width, classes, act=self.act, dropout=dropout)
            model = TextClassifier(trunk, head)
            pieces |= linear("head.dense", self.dense) | linear("head.output", self.output)
        else:
            model = TextClassifier(trunk, LastTokenHead(width, classes, dropout=dropout))
            pieces |= linear("head.output", self.output, bias=False)
        # The start and end logits of question answering have no class names.
        if self.output != "qa_outputs":
            model.labels = theirs.labels(classes)
        return model, pieces


def label_head(theirs: Checkpoint) -> LabelHead | None:
    """Return the classification head of a checkpoint, found by tensor names, or None.

    BERT's head follows the pooler, and RoBERTa's head an additional linear layer. The heads of
    GPT-2 and Llama are a single linear layer, which has no bias in text classifiers.
    """
    names = theirs.tensors
    if "classifier.out_proj.weight" in names:
        act = theirs.activation("hidden_act") if theirs["model_type"] == "big_bird" else "tanh"
        return LabelHead("classifier.out_proj", "classifier.dense", act=act)
    if "classifier.weight" in names:
        said = " ".join(theirs.config.get("architectures") or ())
        pooled = "pooler.dense.weight" in names and "TokenClassification" not in said
        return LabelHead("classifier", "pooler.dense" if pooled else "", of_tokens=not pooled)
    if "qa_outputs.weight" in names:
        return LabelHead("qa_outputs", of_tokens=True)
    if "score.weight" in names:
        return LabelHead("score", of_tokens="score.bias" in names)
    return None


def _dropout(theirs: Checkpoint) -> float:
    """Return the dropout probability before the last linear layer of the head."""
    given = (theirs.config.get(name) for name in ("classifier_dropout", "hidden_dropout_prob"))
    return next((float(share) for share in given if share is not None), 0.0)
