"""Load BERT and RoBERTa checkpoints of Hugging Face."""

from __future__ import annotations

from typing import Any

from torch import nn

from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Source, linear
from edgewise.interop.huggingface.label_heads import fill_with_head, label_head
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


def load_bert(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``bert`` or ``roberta``, with its pooler and heads, from a checkpoint."""
    kind = checkpoint["model_type"]
    checkpoint = checkpoint.without_prefix(f"{kind}.").renamed(*HEADS)
    checkpoint.require(
        is_decoder=False, add_cross_attention=False, position_embedding_type="absolute"
    )
    model = MODELS[kind](
        checkpoint["vocab_size"],
        padding=checkpoint["pad_token_id"] if kind == "roberta" else None,
        graph=complete() if graph is None else graph,
        ffn_dropout=0.0,
        **model_options(checkpoint),
    )
    assert isinstance(model, TextModel)
    return fill_bert(model, layer_sources(checkpoint["num_hidden_layers"]), checkpoint)


def fill_bert(model: TextModel, layers: dict[str, Source], checkpoint: Checkpoint) -> nn.Module:
    """Copy the weights, pooler and heads of a checkpoint to a model of BERT's form; return it."""
    sources = _embedding_sources() | layers
    if "head.dense.weight" in checkpoint.tensors:
        sources |= _head_sources(model, checkpoint)
    else:
        model.head = None
    head = label_head(checkpoint)
    # A classifier of texts uses the pooler as the first layer of its head.
    classifies_texts = head is not None and head.dense == "pooler.dense"
    if "pooler.dense.weight" in checkpoint.tensors and not classifies_texts:
        width = checkpoint["hidden_size"]
        model.pooler = nn.Sequential(nn.Linear(width, width), nn.Tanh())
        sources |= linear("pooler.0", "pooler.dense")
    # As in transformers, the embedding of padding is not trained.
    model.embedding.tokens.padding_idx = checkpoint.config.get("pad_token_id")
    return fill_with_head(model, head, sources, checkpoint, unused=UNUSED + UNUSED_HEAD)


def _head_sources(model: TextModel, checkpoint: Checkpoint) -> dict[str, Source]:
    """Return the sources of the head, which becomes untied if it has its own matrix."""
    sources = linear("head.transform.0", "head.dense") | linear("head.transform.2", "head.norm")
    # transformers adds the bias of the decoder. If both biases are tied, either may be saved.
    has_decoder_bias = "head.decoder.bias" in checkpoint.tensors
    sources["head.bias"] = Source("head.decoder.bias" if has_decoder_bias else "head.bias")
    decoder = checkpoint.tensors.get("head.decoder.weight")
    tokens = checkpoint.tensors.get("embeddings.word_embeddings.weight")
    if decoder is None or (tokens is not None and decoder.equal(tokens)):
        return sources
    assert isinstance(model.head, LanguageModelHead)
    model.head = LanguageModelHead(
        checkpoint["vocab_size"],
        checkpoint["hidden_size"],
        tied=False,
        bias=True,
        transform=model.head.transform,
    )
    return sources | {"head.weight": Source("head.decoder.weight")}


def model_options(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the arguments of the model that are in the configuration."""
    return {
        "width": checkpoint["hidden_size"],
        "depth": checkpoint["num_hidden_layers"],
        "heads": checkpoint["num_attention_heads"],
        "ffn_dim": checkpoint["intermediate_size"],
        "max_length": checkpoint["max_position_embeddings"],
        "types": checkpoint["type_vocab_size"],
        "act": checkpoint.activation("hidden_act"),
        "epsilon": checkpoint.config.get("layer_norm_eps", 1e-12),
        "dropout": checkpoint["hidden_dropout_prob"],
    }


def _embedding_sources() -> dict[str, Source]:
    return {
        "embedding.tokens.weight": Source("embeddings.word_embeddings.weight"),
        "embedding.positions.table": Source("embeddings.position_embeddings.weight"),
        "embedding.types.weight": Source("embeddings.token_type_embeddings.weight"),
        **linear("embedding.norm", "embeddings.LayerNorm"),
    }


def layer_sources(depth: int, path: str = "backbone.stack.layers") -> dict[str, Source]:
    """Return the sources of the layers, whose names begin with ``path``."""
    sources: dict[str, Source] = {}
    for i in range(depth):
        layer, hf_layer = f"{path}.{i}", f"encoder.layer.{i}"
        for name in ("query", "key", "value"):
            sources |= linear(
                f"{layer}.attention.sublayer.{name}", f"{hf_layer}.attention.self.{name}"
            )
        sources |= linear(
            f"{layer}.attention.sublayer.output", f"{hf_layer}.attention.output.dense"
        )
        sources |= linear(f"{layer}.attention.norm", f"{hf_layer}.attention.output.LayerNorm")
        sources |= linear(f"{layer}.feed_forward.sublayer.0", f"{hf_layer}.intermediate.dense")
        sources |= linear(f"{layer}.feed_forward.sublayer.3", f"{hf_layer}.output.dense")
        sources |= linear(f"{layer}.feed_forward.norm", f"{hf_layer}.output.LayerNorm")
    return sources
