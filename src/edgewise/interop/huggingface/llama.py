"""Load Llama, Mistral and Qwen2 checkpoints of Hugging Face."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise.encodings import rotary_rates
from edgewise.graphs import Pattern, causal, window
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.interop.huggingface.label_heads import label_head
from edgewise.models.llama import llama

UNUSED = ("rotary_emb.inv_freq",)


def load_llama(theirs: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``llama`` and its head from a checkpoint, with the causal part of ``graph``."""
    theirs = theirs.without_prefix("model.")
    theirs.must_be(mlp_bias=False, use_sliding_window=False)
    depth = theirs["num_hidden_layers"]
    says_tied = bool(theirs.config.get("tie_word_embeddings", False))
    tied = "lm_head.weight" not in theirs.tensors or says_tied
    head = label_head(theirs)
    bias = "layers.0.self_attn.q_proj.bias" in theirs.tensors
    reads: Pattern = causal()
    if theirs["model_type"] == "mistral" and theirs.config.get("sliding_window"):
        reads = causal() & window(theirs["sliding_window"] - 1)
    reads = reads if graph is None else causal() & graph
    model = llama(theirs["vocab_size"], bias=bias, tied=tied, graph=reads, **_numbers(theirs))
    pieces = {
        "embedding.tokens.weight": Piece("embed_tokens.weight"),
        **linear("backbone.stack.norm", "norm", bias=False),
    }
    if not tied:
        pieces["head.weight"] = Piece("lm_head.weight")
    elif not says_tied and head is None:
        model.head = None  # The checkpoint has no head.
    for i in range(depth):
        pieces |= _layer(f"backbone.stack.layers.{i}", f"layers.{i}", bias)
    if bias:
        theirs = _with_output_bias(theirs, depth)
    # As in transformers, the embedding of padding is not trained.
    model.embedding.tokens.padding_idx = theirs.config.get("pad_token_id")
    unused = (*UNUSED, "lm_head.weight") if tied else UNUSED
    whole, pieces = (model, pieces) if head is None else head.put_on(model, pieces, theirs)
    fill(whole, pieces, theirs, unused=unused)
    return whole


def _numbers(theirs: Checkpoint) -> dict[str, Any]:
    heads = theirs["num_attention_heads"]
    head_width = theirs.config.get("head_dim") or theirs["hidden_size"] // heads
    base, rates = _rotary(theirs, head_width)
    return {
        "width": theirs["hidden_size"],
        "depth": theirs["num_hidden_layers"],
        "heads": heads,
        "key_heads": theirs.config.get("num_key_value_heads") or heads,
        "head_width": head_width,
        "ffn_dim": theirs["intermediate_size"],
        "act": theirs.activation("hidden_act"),
        "base": base,
        "rates": rates,
        "epsilon": theirs["rms_norm_eps"],
    }


def _layer(ours: str, their: str, bias: bool) -> dict[str, Piece]:
    pieces: dict[str, Piece] = {}
    for mine, name in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
        there = f"{their}.self_attn.{name}_proj"
        pieces |= linear(f"{ours}.attention.sublayer.{mine}", there, bias=bias)
    for name in ("gate", "up", "down"):
        there = f"{their}.mlp.{name}_proj"
        pieces |= linear(f"{ours}.feed_forward.sublayer.{name}", there, bias=False)
    pieces |= linear(f"{ours}.attention.norm", f"{their}.input_layernorm", bias=False)
    pieces |= linear(f"{ours}.feed_forward.norm", f"{their}.post_attention_layernorm", bias=False)
    return pieces


def _with_output_bias(theirs: Checkpoint, depth: int) -> Checkpoint:
    """Add zero output biases, because Qwen2 has biases only on query, key and value."""
    tensors: dict[str, Tensor] = {}
    for i in range(depth):
        weight = theirs.tensors[f"layers.{i}.self_attn.o_proj.weight"]
        tensors[f"layers.{i}.self_attn.o_proj.bias"] = weight.new_zeros(weight.shape[0])
    return Checkpoint(theirs.config, {**tensors, **theirs.tensors})


def _rotary(theirs: Checkpoint, width: int) -> tuple[float, Tensor | None]:
    """Return the rotary base, and the frequencies if they are scaled for long contexts."""
    options: dict[str, Any] = {
        **(theirs.config.get("rope_scaling") or {}),
        **(theirs.config.get("rope_parameters") or {}),
    }
    base = float(options.get("rope_theta") or theirs.config.get("rope_theta") or 10000.0)
    kind = options.get("rope_type") or options.get("type") or "default"
    check_choice("rope_type", kind, ["default", "linear", "llama3"])
    if kind == "default":
        return base, None
    rates = rotary_rates(width, base)
    factor = options["factor"]
    if kind == "linear":
        return base, rates / factor
    # Llama 3: high frequencies are unchanged, low frequencies are divided by the factor, and
    # frequencies between them are interpolated.
    length = options["original_max_position_embeddings"]
    low, high = options["low_freq_factor"], options["high_freq_factor"]
    turns = length * rates / (2 * math.pi)
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return base, torch.lerp(rates / factor, rates, smooth)
