"""Load Reformer checkpoints of Hugging Face."""

from __future__ import annotations

import torch
from torch import nn

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Source, fill, linear
from edgewise.layers import LanguageModelHead, TextModel
from edgewise.layers.single_text import refuse_graph
from edgewise.models.reformer import Axial, reformer

BIASES = ("lm_head.decoder.bias", "lm_head.bias")
"""Names of the bias of the head. transformers adds it to the logits from version 5.24 on."""


def load_reformer(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``reformer`` from a checkpoint, with transformers' hashes if ``hash_seed`` is set."""
    refuse_graph("reformer", graph)
    checkpoint = checkpoint.without_prefix("reformer.")
    num_chunks = {
        name: (checkpoint[f"local_num_chunks_{name}"], checkpoint[f"lsh_num_chunks_{name}"])
        for name in ("before", "after")
    }
    if any(local != lsh for local, lsh in num_chunks.values()):
        raise ArgumentError(
            "config",
            expected="as many local as LSH chunks, both before and after a chunk",
            got=f"(local, LSH) chunks {num_chunks!r}",
            remedy="run this variant with transformers, as Edgewise does not support it",
        )
    axial = bool(checkpoint["axial_pos_embds"])
    buckets = checkpoint.config.get("num_buckets")
    model = reformer(
        checkpoint["vocab_size"],
        width=checkpoint["hidden_size"],
        depth=len(checkpoint["attn_layers"]),
        heads=checkpoint["num_attention_heads"],
        head_width=checkpoint["attention_head_size"],
        ffn_dim=checkpoint["feed_forward_size"],
        kinds=tuple(checkpoint["attn_layers"]),
        chunk=checkpoint["lsh_attn_chunk_length"],
        local_chunk=checkpoint["local_attn_chunk_length"],
        num_chunks_before=num_chunks["before"][0],
        num_chunks_after=num_chunks["after"][0],
        num_buckets=tuple(buckets) if isinstance(buckets, list) else buckets,
        num_hashes=checkpoint["num_hashes"],
        hash_seed=checkpoint.config.get("hash_seed"),
        causal=checkpoint["is_decoder"],
        max_length=checkpoint["max_position_embeddings"],
        axial=tuple(checkpoint["axial_pos_shape"]) if axial else None,
        axial_widths=tuple(checkpoint["axial_pos_embds_dim"]) if axial else None,
        act=checkpoint.activation("hidden_act"),
        epsilon=checkpoint["layer_norm_eps"],
        dropout=checkpoint["hidden_dropout_prob"],
    )
    sources = _sources(model, checkpoint)
    if "lm_head.decoder.weight" in checkpoint.tensors:
        sources["head.weight"] = Source("lm_head.decoder.weight")
        bias = next((name for name in BIASES if name in checkpoint.tensors), "")
        if bias and _adds_bias():
            assert isinstance(model.head, LanguageModelHead)
            model.head.bias = nn.Parameter(torch.zeros(checkpoint["vocab_size"]))
            sources["head.bias"] = Source(bias)
    else:
        model.head = None
    fill(model, sources, checkpoint, unused=BIASES)
    return model


def _adds_bias() -> bool:
    """Return whether the installed transformers adds the bias of the head to the logits."""
    import transformers

    return tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 24)


def _sources(model: TextModel, checkpoint: Checkpoint) -> dict[str, Source]:
    sources = {
        "embedding.tokens.weight": Source("embeddings.word_embeddings.weight"),
        **linear("backbone.norm.0", "encoder.layer_norm"),
    }
    hf_positions = "embeddings.position_embeddings"
    if isinstance(model.embedding.positions, Axial):
        sources["embedding.positions.row"] = Source(f"{hf_positions}.weights.0", lambda x: x[:, 0])
        sources["embedding.positions.column"] = Source(f"{hf_positions}.weights.1", lambda x: x[0])
    else:
        sources["embedding.positions.table"] = Source(f"{hf_positions}.embedding.weight")
    for i, kind in enumerate(checkpoint["attn_layers"]):
        layer, hf_layer = f"backbone.layers.{i}", f"encoder.layers.{i}"
        for name in ("query_key", "value") if kind == "lsh" else ("query", "key", "value"):
            hf_name = f"{hf_layer}.attention.self_attention.{name}"
            sources |= linear(f"{layer}.attention.{name}", hf_name, bias=False)
        hf_name = f"{hf_layer}.attention.output.dense"
        sources |= linear(f"{layer}.attention.output", hf_name, bias=False)
        sources |= linear(f"{layer}.attention_norm", f"{hf_layer}.attention.layer_norm")
        sources |= linear(f"{layer}.feed_forward_norm", f"{hf_layer}.feed_forward.layer_norm")
        sources |= linear(f"{layer}.feed_forward.0", f"{hf_layer}.feed_forward.dense.dense")
        sources |= linear(f"{layer}.feed_forward.3", f"{hf_layer}.feed_forward.output.dense")
    return sources
