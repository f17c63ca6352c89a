"""Load ViT checkpoints of Hugging Face, saved by version 4 or 5 of transformers."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Source, fill, linear
from edgewise.models.vit import vit

MODERN = (
    ("encoder.layer.", "layers."),
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
)


def load_vit(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Sequential:
    """Build ``vit``; without a classifier, it returns normalised states ``[B, N, width]``."""
    checkpoint = checkpoint.without_prefix("vit.").renamed(*MODERN)
    checkpoint.require(qkv_bias=True)
    head = checkpoint.tensors.get("classifier.weight")
    model = vit(
        checkpoint["image_size"],
        checkpoint["num_channels"],
        1 if head is None else len(head),
        **model_options(checkpoint),
        norm=partial(nn.LayerNorm, eps=checkpoint["layer_norm_eps"]),
        dropout=checkpoint["hidden_dropout_prob"],
        pool="class",
        graph=complete() if graph is None else graph,
    )
    if head is None:
        # Drop the pool and the head.
        model = nn.Sequential(*list(model.children())[:-2])
    sources = {} if head is None else linear("6", "classifier")
    sources |= {
        **linear("0.project", "embeddings.patch_embeddings.projection"),
        "1.token": Source("embeddings.cls_token", lambda x: x[0, 0]),
        "2.table": Source("embeddings.position_embeddings", lambda x: x[0]),
        **linear("4.norm", "layernorm"),
    }
    for i in range(checkpoint["num_hidden_layers"]):
        sources |= image_layer_sources(f"4.layers.{i}", f"layers.{i}")
    fill(model, sources, checkpoint)
    return model


def model_options(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the arguments of the model that are sizes in the configuration."""
    return {
        "patch": checkpoint["patch_size"],
        "width": checkpoint["hidden_size"],
        "depth": checkpoint["num_hidden_layers"],
        "heads": checkpoint["num_attention_heads"],
        "ffn_dim": checkpoint["intermediate_size"],
        "act": checkpoint.activation("hidden_act"),
    }


def image_layer_sources(layer: str, hf_layer: str) -> dict[str, Source]:
    """Return the sources of a layer with ViT's names in the checkpoint."""
    sources: dict[str, Source] = {}
    for name in ("query", "key", "value", "output"):
        hf_name = f"{hf_layer}.attention.{name[0]}_proj"
        sources |= linear(f"{layer}.attention.sublayer.{name}", hf_name)
    return {
        **sources,
        **linear(f"{layer}.attention.norm", f"{hf_layer}.layernorm_before"),
        **linear(f"{layer}.feed_forward.sublayer.0", f"{hf_layer}.mlp.fc1"),
        **linear(f"{layer}.feed_forward.sublayer.3", f"{hf_layer}.mlp.fc2"),
        **linear(f"{layer}.feed_forward.norm", f"{hf_layer}.layernorm_after"),
    }
