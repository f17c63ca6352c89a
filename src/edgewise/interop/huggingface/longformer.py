"""Load Longformer checkpoints of Hugging Face."""

from __future__ import annotations

from torch import nn

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.interop.huggingface.bert import HEADS, filled, layer_pieces, numbers
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, linear
from edgewise.models.longformer import longformer


def load_longformer(theirs: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``longformer`` from a checkpoint; ``graph`` replaces the sliding windows.

    By default, the global tokens are the first token for text classification, the tokens of the
    question for question answering, and none for other models, as in transformers.
    ``global_attention_mask`` replaces them.
    """
    theirs = theirs.without_prefix("longformer.").renamed(*HEADS)
    depth = theirs["num_hidden_layers"]
    windows = theirs["attention_window"]
    windows = [windows] * depth if isinstance(windows, int) else list(windows)
    if any(window % 2 for window in windows):
        raise ArgumentError(
            "attention_window",
            expected="even numbers, for windows with equally many tokens on both sides",
            got=repr(windows),
            remedy="use the config.json that was saved with the model's weights",
        )
    model = longformer(
        theirs["vocab_size"],
        radius=tuple(window // 2 for window in windows),
        hubs=(0,) if "classifier.dense.weight" in theirs.tensors else (),
        padding=theirs["pad_token_id"],
        **numbers(theirs),
    )
    if "qa_outputs.weight" in theirs.tensors:
        model.separator = theirs["sep_token_id"]
    if graph is not None:
        model.backbone.graphs = [graph] * depth
    return filled(model, layer_pieces(depth, "backbone.layers") | _hub_pieces(depth), theirs)


def _hub_pieces(depth: int) -> dict[str, Piece]:
    """Return a :class:`Piece` for each tensor of the projections for global tokens."""
    pieces: dict[str, Piece] = {}
    for i in range(depth):
        for name in ("query", "key", "value"):
            ours = f"backbone.layers.{i}.attention.sublayer.hub_{name}"
            pieces |= linear(ours, f"encoder.layer.{i}.attention.self.{name}_global")
    return pieces
