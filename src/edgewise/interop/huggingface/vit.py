"""Load ViT checkpoints of Hugging Face, saved by version 4 or 5 of transformers."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from edgewise.graphs import Pattern, complete
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.interop.huggingface.fill import Piece, fill, linear
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


def load_vit(theirs: Checkpoint, graph: Pattern | None) -> nn.Sequential:
    """Build ``vit`` from a checkpoint: ``model(pixel_values [B, C, S, S]) -> [B, classes]``.

    Without a classifier, the model returns the normalised states ``[B, 1 + patches, width]``.
    ``graph`` is a pattern over patches; the class token attends to all and all attend to it.
    """
    theirs = theirs.without_prefix("vit.").renamed(*MODERN)
    theirs.must_be(qkv_bias=True)
    head = theirs.tensors.get("classifier.weight")
    model = vit(
        theirs["image_size"],
        theirs["num_channels"],
        1 if head is None else len(head),
        **numbers(theirs),
        norm=partial(nn.LayerNorm, eps=theirs["layer_norm_eps"]),
        dropout=theirs["hidden_dropout_prob"],
        pool="class",
        graph=complete() if graph is None else graph,
    )
    if head is None:
        # Drop the pool and the head.
        model = nn.Sequential(*list(model.children())[:-2])
    pieces = {} if head is None else linear("6", "classifier")
    pieces |= {
        **linear("0.project", "embeddings.patch_embeddings.projection"),
        "1.token": Piece("embeddings.cls_token", lambda x: x[0, 0]),
        "2.table": Piece("embeddings.position_embeddings", lambda x: x[0]),
        **linear("4.norm", "layernorm"),
    }
    for i in range(theirs["num_hidden_layers"]):
        pieces |= image_layer(f"4.layers.{i}", f"layers.{i}")
    fill(model, pieces, theirs)
    return model


def numbers(theirs: Checkpoint) -> dict[str, Any]:
    """Return the arguments of the model that are sizes in the configuration."""
    return {
        "patch": theirs["patch_size"],
        "width": theirs["hidden_size"],
        "depth": theirs["num_hidden_layers"],
        "heads": theirs["num_attention_heads"],
        "ffn_dim": theirs["intermediate_size"],
        "act": theirs.activation("hidden_act"),
    }


def image_layer(ours: str, theirs: str) -> dict[str, Piece]:
    """Return a :class:`Piece` for each tensor of a layer with ViT's names in the checkpoint."""
    pieces: dict[str, Piece] = {}
    for mine, name in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o")):
        pieces |= linear(f"{ours}.attention.sublayer.{mine}", f"{theirs}.attention.{name}_proj")
    return {
        **pieces,
        **linear(f"{ours}.attention.norm", f"{theirs}.layernorm_before"),
        **linear(f"{ours}.feed_forward.sublayer.0", f"{theirs}.mlp.fc1"),
        **linear(f"{ours}.feed_forward.sublayer.3", f"{theirs}.mlp.fc2"),
        **linear(f"{ours}.feed_forward.norm", f"{theirs}.layernorm_after"),
    }
