"""Load GPT-2 checkpoints of Hugging Face, whose matrices are transposed."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs import Pattern, causal
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Source, linear
from edgewise.interop.huggingface.label_heads import fill_with_head, label_head
from edgewise.models.gpt import gpt

UNUSED = (".attn.bias", ".attn.masked_bias", "lm_head.weight")


def load_gpt2(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Module:
    """Build ``gpt`` and its head from a checkpoint, with the causal part of ``graph``."""
    checkpoint = checkpoint.without_prefix("transformer.")
    checkpoint.require(
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
        tie_word_embeddings=True,
    )
    model = gpt(
        checkpoint["vocab_size"],
        width=checkpoint["n_embd"],
        depth=checkpoint["n_layer"],
        heads=checkpoint["n_head"],
        ffn_dim=checkpoint.config.get("n_inner") or 4 * checkpoint["n_embd"],
        max_length=checkpoint["n_positions"],
        act=checkpoint.activation("activation_function"),
        epsilon=checkpoint["layer_norm_epsilon"],
        dropout=checkpoint["resid_pdrop"],
        graph=causal() if graph is None else causal() & graph,
    )
    sources = {
        "embedding.tokens.weight": Source("wte.weight"),
        "embedding.positions.table": Source("wpe.weight"),
        **linear("backbone.stack.norm", "ln_f"),
    }
    for i in range(checkpoint["n_layer"]):
        layer, hf_layer = f"backbone.stack.layers.{i}", f"h.{i}"
        for index, name in enumerate(("query", "key", "value")):
            hf_name = f"{hf_layer}.attn.c_attn"
            sources |= _transposed(f"{layer}.attention.sublayer.{name}", hf_name, index)
        sources |= _transposed(f"{layer}.attention.sublayer.output", f"{hf_layer}.attn.c_proj")
        sources |= linear(f"{layer}.attention.norm", f"{hf_layer}.ln_1")
        sources |= _transposed(f"{layer}.feed_forward.sublayer.0", f"{hf_layer}.mlp.c_fc")
        sources |= _transposed(f"{layer}.feed_forward.sublayer.3", f"{hf_layer}.mlp.c_proj")
        sources |= linear(f"{layer}.feed_forward.norm", f"{hf_layer}.ln_2")
    return fill_with_head(model, label_head(checkpoint), sources, checkpoint, unused=UNUSED)


def _transposed(name: str, hf_name: str, index: int | None = None) -> dict[str, Source]:
    """Return the sources of a layer ``[in, out]``, or of the query, key or value of a joint one."""

    def select(x: Tensor) -> Tensor:
        return x if index is None else x.unflatten(-1, (3, -1))[..., index, :]

    return {
        f"{name}.weight": Source(f"{hf_name}.weight", lambda x: select(x).T),
        f"{name}.bias": Source(f"{hf_name}.bias", select),
    }
