"""Longformer from Hugging Face's checkpoints: its language model, or a classifier with its head."""

from __future__ import annotations

from torch import nn

from edgewise.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.interop.huggingface.bert import (
    HEADS,
    embedding_pieces,
    head_pieces,
    layer_pieces,
    numbers,
)
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.layers import ClassificationHead
from edgewise.models.longformer import LongformerModel, longformer

UNUSED = ("position_ids", "head.decoder.", "head.bias")


def load_longformer(theirs: Checkpoint, graph: Pattern | None) -> LongformerModel:
    """``longformer`` with the checkpoint's weights and hubs as transformers has them.

    A classifier of texts makes the first token a hub, and has its head as ``model.classifier``,
    called with the states; that of a classifier of tokens or of answers is called so, too. Other
    models have no hubs but those that a call names with ``global_attention_mask``.
    """
    theirs = theirs.without_prefix("longformer.").renamed(*HEADS)
    depth = theirs["num_hidden_layers"]
    windows = theirs["attention_window"]
    windows = [windows] * depth if isinstance(windows, int) else list(windows)
    if any(window % 2 for window in windows):
        raise ArgumentError(
            "attention_window",
            expected="even numbers, half of it on either side",
            got=repr(windows),
            remedy="use the config.json that was saved with these weights",
        )
    of_texts = "classifier.dense.weight" in theirs.tensors
    model = longformer(
        theirs["vocab_size"],
        radius=tuple(window // 2 for window in windows),
        hubs=(0,) if of_texts else (),
        padding=theirs["pad_token_id"],
        **numbers(theirs),
    )
    if graph is not None:
        model.reader.graphs = [graph] * depth
    pieces = embedding_pieces() | layer_pieces(depth, "reader.layers") | _hub_pieces(depth)
    if "head.dense.weight" in theirs.tensors:
        pieces |= head_pieces(model, theirs)
    else:
        model.head = None
    width = theirs["hidden_size"]
    if "pooler.dense.weight" in theirs.tensors:
        model.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        pieces |= linear("pooler.0", "pooler.dense")
    if of_texts:
        labels = len(theirs.tensors["classifier.out_proj.bias"])
        dropout = theirs["hidden_dropout_prob"]
        model.classifier = ClassificationHead(width, labels, dropout=dropout)
        pieces |= linear("classifier.dense", "classifier.dense")
        pieces |= linear("classifier.output", "classifier.out_proj")
    for name in ("classifier", "qa_outputs"):
        if f"{name}.weight" in theirs.tensors:
            model.classifier = nn.Linear(width, len(theirs.tensors[f"{name}.bias"]))
            pieces |= linear("classifier", name)
    # As theirs: the vector of padding is not trained, where padding is read.
    model.embedding.tokens.padding_idx = theirs["pad_token_id"]
    fill(model, pieces, theirs, unused=UNUSED)
    return model


def _hub_pieces(depth: int) -> dict[str, Piece]:
    """The second projections, of the hubs' own rows."""
    pieces: dict[str, Piece] = {}
    for i in range(depth):
        for name in ("query", "key", "value"):
            ours = f"reader.layers.{i}.attention.sublayer.hub_{name}"
            pieces |= linear(ours, f"encoder.layer.{i}.attention.self.{name}_global")
    return pieces
