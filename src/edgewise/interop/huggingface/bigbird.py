"""Load BigBird checkpoints of Hugging Face, with the random blocks of transformers."""

from __future__ import annotations

from torch import nn

from edgewise._utils.arguments import check_choice
from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.bert import HEADS, filled, layer_pieces, numbers
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.models.bigbird import bigbird

POOLER = ("pooler.weight", "pooler.dense.weight"), ("pooler.bias", "pooler.dense.bias")
KINDS = ("block_sparse", "original_full")


def load_bigbird(theirs: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``bigbird`` from a checkpoint.

    Without ``graph``, attention is block-sparse or full, as the configuration says. As in
    transformers, random blocks are sampled in training, and replaced by the first block in
    evaluation.
    """
    theirs = theirs.without_prefix("bert.").renamed(*HEADS, *POOLER)
    theirs.must_be(is_decoder=False, add_cross_attention=False, use_bias=True)
    kind = theirs.config.get("attention_type", KINDS[0])
    check_choice("attention_type", kind, KINDS)
    model = bigbird(
        theirs["vocab_size"],
        block=theirs["block_size"],
        random_blocks=theirs["num_random_blocks"],
        random_attention="training",
        token_scale=theirs["hidden_size"] ** 0.5
        if theirs.config.get("rescale_embeddings")
        else 1.0,
        graph=complete() if graph is None and kind == "original_full" else graph,
        **numbers(theirs),
    )
    return filled(model, layer_pieces(theirs["num_hidden_layers"], "backbone.layers"), theirs)
