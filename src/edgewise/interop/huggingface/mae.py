"""Load ViTMAE checkpoints (masked autoencoders of images) of Hugging Face."""

from __future__ import annotations

from edgewise.graphs import Pattern
from edgewise.interop.huggingface.checkpoint import Checkpoint, refuse_graph
from edgewise.interop.huggingface.fill import Piece, fill, linear
from edgewise.interop.huggingface.vit import MODERN, image_layer, numbers
from edgewise.models.mae import MaskedAutoencoder, mae


def load_mae(theirs: Checkpoint, graph: Pattern | None) -> MaskedAutoencoder:
    """Build a ``mae`` model, with its decoder, from a checkpoint.

    Raises:
        ArgumentError: ``graph`` is not None; no graph would fit, because the visible patches differ
            between images.
    """
    refuse_graph(
        graph, "None for a masked autoencoder, whose visible patches differ between images"
    )
    theirs = theirs.without_prefix("vit.").renamed(*MODERN)
    theirs.must_be(qkv_bias=True)
    model = mae(
        theirs["image_size"],
        theirs["num_channels"],
        **numbers(theirs),
        decoder_width=theirs["decoder_hidden_size"],
        decoder_depth=theirs["decoder_num_hidden_layers"],
        decoder_heads=theirs["decoder_num_attention_heads"],
        decoder_ffn_dim=theirs["decoder_intermediate_size"],
        epsilon=theirs["layer_norm_eps"],
        mask_ratio=theirs["mask_ratio"],
        normalised=theirs["norm_pix_loss"],
    )
    pieces = {
        **linear("patches.project", "embeddings.patch_embeddings.projection"),
        "class_token.token": Piece("embeddings.cls_token", lambda x: x[0, 0]),
        "positions.table": Piece("embeddings.position_embeddings", lambda x: x[0]),
        **linear("encoder.norm", "layernorm"),
        **linear("narrow", "decoder.decoder_embed"),
        "hidden_token": Piece("decoder.mask_token", lambda x: x[0, 0]),
        "decoder_positions.table": Piece("decoder.decoder_pos_embed", lambda x: x[0]),
        **linear("decoder.norm", "decoder.decoder_norm"),
        **linear("predict", "decoder.decoder_pred"),
    }
    for i in range(theirs["num_hidden_layers"]):
        pieces |= image_layer(f"encoder.layers.{i}", f"layers.{i}")
    for i in range(theirs["decoder_num_hidden_layers"]):
        pieces |= image_layer(f"decoder.layers.{i}", f"decoder.decoder_layers.{i}")
    fill(model, pieces, theirs)
    return model
