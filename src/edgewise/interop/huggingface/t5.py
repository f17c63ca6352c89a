"""Load T5 checkpoints of Hugging Face: version 1.0 (ReLU) or 1.1 (gated)."""

from __future__ import annotations

from typing import Any

from edgewise._utils.arguments import check_choice
from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.layers import EncoderDecoderModel
from edgewise.models.t5 import t5

GATED = {"relu": False, "gated-gelu": True}
UNUSED = ("coder.embed_tokens.weight",)


def load_t5(theirs: Checkpoint, graph: Pattern | None) -> EncoderDecoderModel:
    """Build ``t5`` from a checkpoint; ``graph`` is the attention pattern of the encoder."""
    theirs = theirs.without_prefix("transformer.")
    kind = theirs.config.get("feed_forward_proj", "relu")
    check_choice("feed_forward_proj", kind, GATED)
    gated = GATED[kind]
    head, tokens = theirs.tensors.get("lm_head.weight"), theirs.tensors.get("shared.weight")
    own_head = head is not None and not (tokens is not None and head.equal(tokens))
    numbers = _numbers(theirs)
    model = t5(
        theirs["vocab_size"],
        gated=gated,
        tied=not own_head,
        graph=complete() if graph is None else graph,
        **numbers,
    )
    scaled = theirs.config.get("tie_word_embeddings", True)
    scaled = theirs.config.get("scale_decoder_outputs", scaled)
    model.head.scale = theirs["d_model"] ** -0.5 if scaled else 1.0
    pieces = {"embedding.tokens.weight": Piece("shared.weight")}
    if own_head:
        pieces["head.weight"] = Piece("lm_head.weight")
    for side, depth in (("encoder", numbers["depth"]), ("decoder", numbers["decoder_depth"])):
        pieces |= _stack(side, depth, gated)
    fill(model, pieces, theirs, unused=UNUSED if own_head else (*UNUSED, "lm_head.weight"))
    return model


def _numbers(theirs: Checkpoint) -> dict[str, Any]:
    return {
        "width": theirs["d_model"],
        "depth": theirs["num_layers"],
        "decoder_depth": theirs.config.get("num_decoder_layers") or theirs["num_layers"],
        "heads": theirs["num_heads"],
        "head_width": theirs["d_kv"],
        "ffn_dim": theirs["d_ff"],
        "num_buckets": theirs["relative_attention_num_buckets"],
        "max_distance": theirs.config.get("relative_attention_max_distance", 128),
        "epsilon": theirs["layer_norm_epsilon"],
        "dropout": theirs["dropout_rate"],
    }


def _stack(side: str, depth: int, gated: bool) -> dict[str, Piece]:
    table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    pieces = {
        f"core.{side}.relative.table": Piece(table),
        **linear(f"core.{side}.stack.norm.0", f"{side}.final_layer_norm", bias=False),
    }
    maps = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated else {"0": "wi", "3": "wo"}
    halves = [("attention", "SelfAttention")]
    halves += [("cross", "EncDecAttention")] if side == "decoder" else []
    for i in range(depth):
        ours, their = f"core.{side}.stack.layers.{i}", f"{side}.block.{i}.layer"
        for number, (half, name) in enumerate(halves):
            for mine, letter in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
                there = f"{their}.{number}.{name}.{letter}"
                pieces |= linear(f"{ours}.{half}.sublayer.{mine}", there, bias=False)
            there = f"{their}.{number}.layer_norm"
            pieces |= linear(f"{ours}.{half}.norm", there, bias=False)
        last = f"{their}.{len(halves)}"
        for mine, name in maps.items():
            there = f"{last}.DenseReluDense.{name}"
            pieces |= linear(f"{ours}.feed_forward.sublayer.{mine}", there, bias=False)
        pieces |= linear(f"{ours}.feed_forward.norm", f"{last}.layer_norm", bias=False)
    return pieces
