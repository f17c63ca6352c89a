"""Load T5 checkpoints of Hugging Face: version 1.0 (ReLU) or 1.1 (gated)."""

from __future__ import annotations

from typing import Any

from edgewise._utils.arguments import check_choice
from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Source, fill, linear
from edgewise.layers import EncoderDecoderModel
from edgewise.models.t5 import t5

GATED = {"relu": False, "gated-gelu": True}
UNUSED = ("coder.embed_tokens.weight",)


def load_t5(checkpoint: Checkpoint, graph: Pattern | None) -> EncoderDecoderModel:
    """Build ``t5`` from a checkpoint; ``graph`` is the attention pattern of the encoder."""
    checkpoint = checkpoint.without_prefix("transformer.")
    kind = checkpoint.config.get("feed_forward_proj", "relu")
    check_choice("feed_forward_proj", kind, GATED)
    gated = GATED[kind]
    head, tokens = checkpoint.tensors.get("lm_head.weight"), checkpoint.tensors.get("shared.weight")
    is_tied = head is None or (tokens is not None and head.equal(tokens))
    options = _model_options(checkpoint)
    model = t5(
        checkpoint["vocab_size"],
        gated=gated,
        tied=is_tied,
        graph=complete() if graph is None else graph,
        **options,
    )
    scaled = checkpoint.config.get("tie_word_embeddings", True)
    scaled = checkpoint.config.get("scale_decoder_outputs", scaled)
    model.head.scale = checkpoint["d_model"] ** -0.5 if scaled else 1.0
    sources = {"embedding.tokens.weight": Source("shared.weight")}
    if not is_tied:
        sources["head.weight"] = Source("lm_head.weight")
    for side, depth in (("encoder", options["depth"]), ("decoder", options["decoder_depth"])):
        sources |= _stack(side, depth, gated)
    fill(model, sources, checkpoint, unused=(*UNUSED, "lm_head.weight") if is_tied else UNUSED)
    return model


def _model_options(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "width": checkpoint["d_model"],
        "depth": checkpoint["num_layers"],
        "decoder_depth": checkpoint.config.get("num_decoder_layers") or checkpoint["num_layers"],
        "heads": checkpoint["num_heads"],
        "head_width": checkpoint["d_kv"],
        "ffn_dim": checkpoint["d_ff"],
        "num_buckets": checkpoint["relative_attention_num_buckets"],
        "max_distance": checkpoint.config.get("relative_attention_max_distance", 128),
        "epsilon": checkpoint["layer_norm_epsilon"],
        "dropout": checkpoint["dropout_rate"],
    }


def _stack(side: str, depth: int, gated: bool) -> dict[str, Source]:
    table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    sources = {
        f"core.{side}.relative.table": Source(table),
        **linear(f"core.{side}.stack.norm.0", f"{side}.final_layer_norm", bias=False),
    }
    maps = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated else {"0": "wi", "3": "wo"}
    sublayers = [("attention", "SelfAttention")]
    sublayers += [("cross", "EncDecAttention")] if side == "decoder" else []
    for i in range(depth):
        layer, hf_layer = f"core.{side}.stack.layers.{i}", f"{side}.block.{i}.layer"
        for number, (sublayer, hf_sublayer) in enumerate(sublayers):
            for name in ("query", "key", "value", "output"):
                hf_name = f"{hf_layer}.{number}.{hf_sublayer}.{name[0]}"
                sources |= linear(f"{layer}.{sublayer}.sublayer.{name}", hf_name, bias=False)
            hf_name = f"{hf_layer}.{number}.layer_norm"
            sources |= linear(f"{layer}.{sublayer}.norm", hf_name, bias=False)
        last = f"{hf_layer}.{len(sublayers)}"
        for name, hf_linear in maps.items():
            hf_name = f"{last}.DenseReluDense.{hf_linear}"
            sources |= linear(f"{layer}.feed_forward.sublayer.{name}", hf_name, bias=False)
        sources |= linear(f"{layer}.feed_forward.norm", f"{last}.layer_norm", bias=False)
    return sources
