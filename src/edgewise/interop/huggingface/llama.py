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
from edgewise.interop.huggingface.fill import Source, linear
from edgewise.interop.huggingface.label_heads import fill_with_head, label_head
from edgewise.models.llama import llama

UNUSED = ("rotary_emb.inv_freq",)


def load_llama(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``llama`` and its head from a checkpoint, with the causal part of ``graph``."""
    checkpoint = checkpoint.without_prefix("model.")
    checkpoint.require(mlp_bias=False, use_sliding_window=False)
    depth = checkpoint["num_hidden_layers"]
    says_tied = bool(checkpoint.config.get("tie_word_embeddings", False))
    tied = "lm_head.weight" not in checkpoint.tensors or says_tied
    head = label_head(checkpoint)
    bias = "layers.0.self_attn.q_proj.bias" in checkpoint.tensors
    pattern: Pattern = causal()
    if graph is not None:
        pattern = causal() & graph
    elif checkpoint["model_type"] == "mistral" and checkpoint.config.get("sliding_window"):
        pattern = causal() & window(checkpoint["sliding_window"] - 1)
    options = _model_options(checkpoint)
    model = llama(checkpoint["vocab_size"], bias=bias, tied=tied, graph=pattern, **options)
    sources = {
        "embedding.tokens.weight": Source("embed_tokens.weight"),
        **linear("backbone.stack.norm", "norm", bias=False),
    }
    if not tied:
        sources["head.weight"] = Source("lm_head.weight")
    elif not says_tied and head is None:
        model.head = None  # The checkpoint has no head.
    for i in range(depth):
        sources |= _layer_sources(f"backbone.stack.layers.{i}", f"layers.{i}", bias)
    if bias:
        checkpoint = _with_output_bias(checkpoint, depth)
    # As in transformers, the embedding of padding is not trained.
    model.embedding.tokens.padding_idx = checkpoint.config.get("pad_token_id")
    unused = (*UNUSED, "lm_head.weight") if tied else UNUSED
    return fill_with_head(model, head, sources, checkpoint, unused=unused)


def _model_options(checkpoint: Checkpoint) -> dict[str, Any]:
    heads = checkpoint["num_attention_heads"]
    head_width = checkpoint.config.get("head_dim") or checkpoint["hidden_size"] // heads
    base, rates = _rotary(checkpoint, head_width)
    return {
        "width": checkpoint["hidden_size"],
        "depth": checkpoint["num_hidden_layers"],
        "heads": heads,
        "key_heads": checkpoint.config.get("num_key_value_heads") or heads,
        "head_width": head_width,
        "ffn_dim": checkpoint["intermediate_size"],
        "act": checkpoint.activation("hidden_act"),
        "base": base,
        "rates": rates,
        "epsilon": checkpoint["rms_norm_eps"],
    }


def _layer_sources(layer: str, hf_layer: str, bias: bool) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for name in ("query", "key", "value", "output"):
        hf_name = f"{hf_layer}.self_attn.{name[0]}_proj"
        sources |= linear(f"{layer}.attention.sublayer.{name}", hf_name, bias=bias)
    for name in ("gate", "up", "down"):
        hf_name = f"{hf_layer}.mlp.{name}_proj"
        sources |= linear(f"{layer}.feed_forward.sublayer.{name}", hf_name, bias=False)
    hf_norm = f"{hf_layer}.post_attention_layernorm"
    sources |= linear(f"{layer}.attention.norm", f"{hf_layer}.input_layernorm", bias=False)
    sources |= linear(f"{layer}.feed_forward.norm", hf_norm, bias=False)
    return sources


def _with_output_bias(checkpoint: Checkpoint, depth: int) -> Checkpoint:
    """Add zero output biases, because Qwen2 has biases only on query, key and value."""
    tensors: dict[str, Tensor] = {}
    for i in range(depth):
        weight = checkpoint.tensors[f"layers.{i}.self_attn.o_proj.weight"]
        tensors[f"layers.{i}.self_attn.o_proj.bias"] = weight.new_zeros(weight.shape[0])
    return Checkpoint(checkpoint.config, {**tensors, **checkpoint.tensors})


def _rotary(checkpoint: Checkpoint, width: int) -> tuple[float, Tensor | None]:
    """Return the rotary base, and the frequencies if they are scaled for long contexts."""
    options: dict[str, Any] = {
        **(checkpoint.config.get("rope_scaling") or {}),
        **(checkpoint.config.get("rope_parameters") or {}),
    }
    base = float(options.get("rope_theta") or checkpoint.config.get("rope_theta") or 10000.0)
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
