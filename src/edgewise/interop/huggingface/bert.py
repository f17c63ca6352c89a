"""Load BERT and RoBERTa checkpoints of Hugging Face."""

from __future__ import annotations

from typing import Any

from torch import nn

from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.interop.huggingface.label_heads import label_head
from edgewise.layers import LanguageModelHead, TextModel
from edgewise.models import MODELS

UNUSED = ("position_ids", "embeddings.token_type_ids")
UNUSED_HEAD = ("head.decoder.", "head.bias")  # Copies of tied tensors; untied ones are loaded.

# (name in the checkpoint, common name of BERT and RoBERTa): four of BERT, then four of RoBERTa.
HEADS = (
    ("cls.predictions.transform.dense.", "head.dense."),
    ("cls.predictions.transform.LayerNorm.", "head.norm."),
    ("cls.predictions.decoder.", "head.decoder."),
    ("cls.predictions.bias", "head.bias"),
    ("lm_head.dense.", "head.dense."),
    ("lm_head.layer_norm.", "head.norm."),
    ("lm_head.decoder.", "head.decoder."),
    ("lm_head.bias", "head.bias"),
)


def load_bert(theirs: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``bert`` or ``roberta``, with its pooler and heads, from a checkpoint."""
    kind = theirs["model_type"]
    theirs = theirs.without_prefix(f"{kind}.").renamed(*HEADS)
    theirs.must_be(is_decoder=False, add_cross_attention=False, position_embedding_type="absolute")
    model = MODELS[kind](
        theirs["vocab_size"],
        padding=theirs["pad_token_id"] if kind == "roberta" else None,
        graph=complete() if graph is None else graph,
        **numbers(theirs),
    )
    assert isinstance(model, TextModel)
    return filled(model, layer_pieces(theirs["num_hidden_layers"]), theirs)


def filled(model: TextModel, layers: dict[str, Piece], theirs: Checkpoint) -> nn.Module:
    """Copy the weights, pooler and heads of a checkpoint to a model of BERT's form; return it."""
    pieces = embedding_pieces() | layers
    if "head.dense.weight" in theirs.tensors:
        pieces |= head_pieces(model, theirs)
    else:
        model.head = None
    head = label_head(theirs)
    # A classifier of texts uses the pooler as the first layer of its head.
    of_texts = head is not None and head.dense == "pooler.dense"
    if "pooler.dense.weight" in theirs.tensors and not of_texts:
        width = theirs["hidden_size"]
        model.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        pieces |= linear("pooler.0", "pooler.dense")
    # As in transformers, the embedding of padding is not trained.
    model.embedding.tokens.padding_idx = theirs.config.get("pad_token_id")
    whole, pieces = (model, pieces) if head is None else head.put_on(model, pieces, theirs)
    fill(whole, pieces, theirs, unused=UNUSED + UNUSED_HEAD)
    return whole


def head_pieces(model: TextModel, theirs: Checkpoint) -> dict[str, Piece]:
    """Return a :class:`Piece` for each tensor of the head; an untied decoder has its own matrix."""
    pieces = linear("head.transform.0", "head.dense") | linear("head.transform.2", "head.norm")
    # transformers adds the bias of the decoder. If both biases are tied, either may be saved.
    own_bias = "head.decoder.bias" in theirs.tensors
    pieces["head.bias"] = Piece("head.decoder.bias" if own_bias else "head.bias")
    decoder = theirs.tensors.get("head.decoder.weight")
    tokens = theirs.tensors.get("embeddings.word_embeddings.weight")
    if decoder is None or (tokens is not None and decoder.equal(tokens)):
        return pieces
    numbers = theirs["vocab_size"], theirs["hidden_size"]
    assert isinstance(model.head, LanguageModelHead)
    model.head = LanguageModelHead(*numbers, tied=False, bias=True, transform=model.head.transform)
    return pieces | {"head.weight": Piece("head.decoder.weight")}


def numbers(theirs: Checkpoint) -> dict[str, Any]:
    """Return the arguments of the model that are in the configuration."""
    return {
        "width": theirs["hidden_size"],
        "depth": theirs["num_hidden_layers"],
        "heads": theirs["num_attention_heads"],
        "ffn_dim": theirs["intermediate_size"],
        "max_length": theirs["max_position_embeddings"],
        "types": theirs["type_vocab_size"],
        "act": theirs.activation("hidden_act"),
        "epsilon": theirs.config.get("layer_norm_eps", 1e-12),
        "dropout": theirs["hidden_dropout_prob"],
    }


def embedding_pieces() -> dict[str, Piece]:
    """Return a :class:`Piece` for each tensor of the embedding."""
    return {
        "embedding.tokens.weight": Piece("embeddings.word_embeddings.weight"),
        "embedding.positions.table": Piece("embeddings.position_embeddings.weight"),
        "embedding.types.weight": Piece("embeddings.token_type_embeddings.weight"),
        **linear("embedding.norm", "embeddings.LayerNorm"),
    }


def layer_pieces(depth: int, path: str = "backbone.stack.layers") -> dict[str, Piece]:
    """Return a :class:`Piece` for each tensor of the layers, whose names begin with ``path``."""
    pieces: dict[str, Piece] = {}
    for i in range(depth):
        ours, their = f"{path}.{i}", f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            pieces |= linear(f"{ours}.attention.sublayer.{name}", f"{their}.attention.self.{name}")
        pieces |= linear(f"{ours}.attention.sublayer.output", f"{their}.attention.output.dense")
        pieces |= linear(f"{ours}.attention.norm", f"{their}.attention.output.LayerNorm")
        pieces |= linear(f"{ours}.feed_forward.sublayer.0", f"{their}.intermediate.dense")
        pieces |= linear(f"{ours}.feed_forward.sublayer.3", f"{their}.output.dense")
        pieces |= linear(f"{ours}.feed_forward.norm", f"{their}.output.LayerNorm")
    return pieces
