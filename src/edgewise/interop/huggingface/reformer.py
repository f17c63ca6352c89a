"""Load Reformer checkpoints of Hugging Face."""

from __future__ import annotations

import torch
from torch import nn

from edgewise._utils.errors import ArgumentError
from edgewise.graphs import Pattern
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.layers import LanguageModelHead, TextModel
from edgewise.layers.sequences import refuse_graph
from edgewise.models.reformer import Axial, reformer

BIASES = ("lm_head.decoder.bias", "lm_head.bias")
"""Names of the bias of the head. transformers adds it to the logits from version 5.24 on."""


def load_reformer(theirs: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``reformer`` from a checkpoint, with transformers' hashes if ``hash_seed`` is set."""
    refuse_graph("reformer", graph)
    theirs = theirs.without_prefix("reformer.")
    near = {
        name: (theirs[f"local_num_chunks_{name}"], theirs[f"lsh_num_chunks_{name}"])
        for name in ("before", "after")
    }
    if any(local != lsh for local, lsh in near.values()):
        raise ArgumentError(
            "config",
            expected="as many local as LSH chunks, both before and after a chunk",
            got=f"(local, LSH) chunks {near!r}",
            remedy="run this variant with transformers, as Edgewise does not support it",
        )
    axial = bool(theirs["axial_pos_embds"])
    buckets = theirs.config.get("num_buckets")
    model = reformer(
        theirs["vocab_size"],
        width=theirs["hidden_size"],
        depth=len(theirs["attn_layers"]),
        heads=theirs["num_attention_heads"],
        head_width=theirs["attention_head_size"],
        ffn_dim=theirs["feed_forward_size"],
        kinds=tuple(theirs["attn_layers"]),
        chunk=theirs["lsh_attn_chunk_length"],
        local_chunk=theirs["local_attn_chunk_length"],
        num_chunks_before=near["before"][0],
        num_chunks_after=near["after"][0],
        num_buckets=tuple(buckets) if isinstance(buckets, list) else buckets,
        num_hashes=theirs["num_hashes"],
        hash_seed=theirs.config.get("hash_seed"),
        causal=theirs["is_decoder"],
        max_length=theirs["max_position_embeddings"],
        axial=tuple(theirs["axial_pos_shape"]) if axial else None,
        axial_widths=tuple(theirs["axial_pos_embds_dim"]) if axial else None,
        act=theirs.activation("hidden_act"),
        epsilon=theirs["layer_norm_eps"],
        dropout=theirs["hidden_dropout_prob"],
    )
    pieces = _pieces(model, theirs)
    if "lm_head.decoder.weight" in theirs.tensors:
        pieces["head.weight"] = Piece("lm_head.decoder.weight")
        bias = next((name for name in BIASES if name in theirs.tensors), "")
        if bias and _adds_bias():
            assert isinstance(model.head, LanguageModelHead)
            model.head.bias = nn.Parameter(torch.zeros(theirs["vocab_size"]))
            pieces["head.bias"] = Piece(bias)
    else:
        model.head = None
    fill(model, pieces, theirs, unused=BIASES)
    return model


def _adds_bias() -> bool:
    """Return whether the installed transformers adds the bias of the head to the logits."""
    import transformers

    return tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 24)


def _pieces(model: TextModel, theirs: Checkpoint) -> dict[str, Piece]:
    pieces = {
        "embedding.tokens.weight": Piece("embeddings.word_embeddings.weight"),
        **linear("backbone.norm.0", "encoder.layer_norm"),
    }
    places = "embeddings.position_embeddings"
    if isinstance(model.embedding.positions, Axial):
        pieces["embedding.positions.row"] = Piece(f"{places}.weights.0", lambda x: x[:, 0])
        pieces["embedding.positions.column"] = Piece(f"{places}.weights.1", lambda x: x[0])
    else:
        pieces["embedding.positions.table"] = Piece(f"{places}.embedding.weight")
    for i, kind in enumerate(theirs["attn_layers"]):
        ours, their = f"backbone.layers.{i}", f"encoder.layers.{i}"
        maps = ("query_key", "value") if kind == "lsh" else ("query", "key", "value")
        for name in maps:
            there = f"{their}.attention.self_attention.{name}"
            pieces |= linear(f"{ours}.attention.{name}", there, bias=False)
        there = f"{their}.attention.output.dense"
        pieces |= linear(f"{ours}.attention.output", there, bias=False)
        pieces |= linear(f"{ours}.attention_norm", f"{their}.attention.layer_norm")
        pieces |= linear(f"{ours}.feed_forward_norm", f"{their}.feed_forward.layer_norm")
        pieces |= linear(f"{ours}.feed_forward.0", f"{their}.feed_forward.dense.dense")
        pieces |= linear(f"{ours}.feed_forward.3", f"{their}.feed_forward.output.dense")
    return pieces
