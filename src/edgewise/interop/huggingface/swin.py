"""Load Swin checkpoints of Hugging Face, saved by version 4 or 5 of transformers."""

from __future__ import annotations

from torch import nn

from edgewise.graphs import Pattern
from edgewise.interop.huggingface.checkpoint import Checkpoint, refuse_graph
from edgewise.interop.huggingface.fill import Source, fill, linear
from edgewise.interop.huggingface.vit import image_layer_sources
from edgewise.models.swin import swin

TABLE = "relative_position_bias_table"
MODERN = (
    (".attention.self.query.", ".attention.q_proj."),
    (".attention.self.key.", ".attention.k_proj."),
    (".attention.self.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
    (".intermediate.dense.", ".mlp.fc1."),
    (".output.dense.", ".mlp.fc2."),
    (f".attention.self.{TABLE}", f".attention.relative_position_bias.{TABLE}"),
)
UNUSED = ("relative_position_index",)


def load_swin(checkpoint: Checkpoint, graph: Pattern | None) -> nn.Sequential:
    """Build ``swin``; without a classifier, it returns normalised states ``[B, N, width]``."""
    refuse_graph(graph, "None for Swin, whose windows are fixed")
    checkpoint = checkpoint.without_prefix("swin.").renamed(*MODERN)
    ffn_ratio = int(checkpoint["mlp_ratio"])
    checkpoint.require(qkv_bias=True, use_absolute_embeddings=False, mlp_ratio=ffn_ratio)
    head = checkpoint.tensors.get("classifier.weight")
    depths = checkpoint["depths"]
    model = swin(
        checkpoint["image_size"],
        checkpoint["num_channels"],
        1 if head is None else len(head),
        patch=checkpoint["patch_size"],
        width=checkpoint["embed_dim"],
        depths=depths,
        heads=checkpoint["num_heads"],
        window=checkpoint["window_size"],
        ffn_ratio=ffn_ratio,
        act=checkpoint.activation("hidden_act"),
        epsilon=checkpoint["layer_norm_eps"],
        dropout=checkpoint["hidden_dropout_prob"],
    )
    last = len(model) - 3  # Index of the norm, which precedes the pooling and the head.
    sources = {} if head is None else linear(f"{last + 2}", "classifier")
    if head is None:
        model = nn.Sequential(*list(model.children())[:-2])
    sources |= linear("0.project", "embeddings.patch_embeddings.projection")
    sources |= linear("1", "embeddings.norm") | linear(f"{last}", "layernorm")
    index = 3  # In the nn.Sequential.
    for stage, depth in enumerate(depths):
        for number in range(depth):
            hf_layer = f"encoder.layers.{stage}.blocks.{number}"
            sources |= image_layer_sources(f"{index}.layer", hf_layer)
            table = f"{hf_layer}.attention.relative_position_bias.{TABLE}"
            sources[f"{index}.table"] = Source(table)
            index += 1
        if stage + 1 < len(depths):
            hf_layer = f"encoder.layers.{stage}.downsample"
            sources |= linear(f"{index}.norm", f"{hf_layer}.norm")
            sources |= linear(f"{index}.reduce", f"{hf_layer}.reduction", bias=False)
            index += 1
    fill(model, sources, checkpoint, unused=UNUSED)
    return model
