"""Heads for labels on a checkpoint's trunk: of texts, of their tokens, and of answers."""

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
    """Where a checkpoint keeps its head for labels, and what that is a head of.

    Attributes:
        output: the name of its last map.
        dense: the name of the map before it, of the class token; "" for none.
        of_tokens: whether it tells each token's label, and not the text's.
        act: after ``dense``.
    """

    output: str
    dense: str = ""
    of_tokens: bool = False
    act: str = "tanh"

    def put_on(
        self, trunk: TextModel, pieces: Mapping[str, Piece], theirs: Checkpoint
    ) -> tuple[TextClassifier | TokenClassifier, dict[str, Piece]]:
        """The trunk with this head, and where the tensors of both come from."""
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
        if self.output != "qa_outputs":  # the places of an answer's ends have no names
            model.labels = theirs.labels(classes)
        return model, pieces


def label_head(theirs: Checkpoint) -> LabelHead | None:
    """The head for labels that a checkpoint has, told by the names of its tensors.

    BERT's reads its pooler, and RoBERTa's a map of its own; GPT-2's and Llama's have none before
    the last, and one of texts has no bias.
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
    """Before the head's last map, as their models of either family take it."""
    given = (theirs.config.get(name) for name in ("classifier_dropout", "hidden_dropout_prob"))
    return next((float(share) for share in given if share is not None), 0.0)
