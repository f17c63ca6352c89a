"""Load Swin checkpoints of Hugging Face, saved by version 4 or 5 of transformers."""

from __future__ import annotations

from torch import nn

from edgewise.graphs import Pattern
from edgewise.interop.huggingface.checkpoint import Checkpoint, refuse_graph
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.interop.huggingface.vit import image_layer
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


def load_swin(theirs: Checkpoint, graph: Pattern | None) -> nn.Sequential:
    """Build ``swin`` from a checkpoint: ``model(pixel_values [B, C, S, S]) -> [B, classes]``.

    Without a classifier, the model returns the normalised states ``[B, patches, width]``.

    Raises:
        ArgumentError: ``graph`` is not None; the windows of each layer are fixed.
    """
    refuse_graph(graph, "None for Swin, whose windows are fixed")
    theirs = theirs.without_prefix("swin.").renamed(*MODERN)
    times = theirs["mlp_ratio"]
    theirs.must_be(qkv_bias=True, use_absolute_embeddings=False, mlp_ratio=int(times))
    head = theirs.tensors.get("classifier.weight")
    depths = theirs["depths"]
    model = swin(
        theirs["image_size"],
        theirs["num_channels"],
        1 if head is None else len(head),
        patch=theirs["patch_size"],
        width=theirs["embed_dim"],
        depths=depths,
        heads=theirs["num_heads"],
        window=theirs["window_size"],
        ffn_ratio=int(times),
        act=theirs.activation("hidden_act"),
        epsilon=theirs["layer_norm_eps"],
        dropout=theirs["hidden_dropout_prob"],
    )
    last = len(model) - 3  # Index of the norm, which precedes the pooling and the head.
    pieces = {} if head is None else linear(f"{last + 2}", "classifier")
    if head is None:
        model = nn.Sequential(*list(model.children())[:-2])
    pieces |= linear("0.project", "embeddings.patch_embeddings.projection")
    pieces |= linear("1", "embeddings.norm") | linear(f"{last}", "layernorm")
    place = 3
    for stage, depth in enumerate(depths):
        for number in range(depth):
            their = f"encoder.layers.{stage}.blocks.{number}"
            pieces |= image_layer(f"{place}.layer", their)
            table = f"{their}.attention.relative_position_bias.{TABLE}"
            pieces[f"{place}.table"] = Piece(table)
            place += 1
        if stage + 1 < len(depths):
            their = f"encoder.layers.{stage}.downsample"
            pieces |= linear(f"{place}.norm", f"{their}.norm")
            pieces |= linear(f"{place}.reduce", f"{their}.reduction", bias=False)
            place += 1
    fill(model, pieces, theirs, unused=UNUSED)
    return model
