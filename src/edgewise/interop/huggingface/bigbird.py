"""Load BigBird checkpoints of Hugging Face, with the random blocks of transformers."""

from __future__ import annotations

from torch import nn

from edgewise._utils.arguments import check_choice
from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.bert import HEADS, fill_bert, layer_sources, model_options
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.models.bigbird import bigbird

POOLER = ("pooler.weight", "pooler.dense.weight"), ("pooler.bias", "pooler.dense.bias")
KINDS = ("block_sparse", "original_full")


def load_bigbird(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``bigbird``; as in transformers, random blocks are the first block in evaluation."""
    checkpoint = checkpoint.without_prefix("bert.").renamed(*HEADS, *POOLER)
    checkpoint.require(is_decoder=False, add_cross_attention=False, use_bias=True)
    kind = checkpoint.config.get("attention_type", KINDS[0])
    check_choice("attention_type", kind, KINDS)
    model = bigbird(
        checkpoint["vocab_size"],
        block=checkpoint["block_size"],
        random_blocks=checkpoint["num_random_blocks"],
        random_attention="training",
        token_scale=checkpoint["hidden_size"] ** 0.5
        if checkpoint.config.get("rescale_embeddings")
        else 1.0,
        graph=complete() if graph is None and kind == "original_full" else graph,
        **model_options(checkpoint),
    )
    return fill_bert(
        model, layer_sources(checkpoint["num_hidden_layers"], "backbone.layers"), checkpoint
    )
