"""Load ViTMAE checkpoints (masked autoencoders of images) of Hugging Face."""

from __future__ import annotations

from edgewise.graphs import Pattern
from edgewise.interop.huggingface.checkpoint import Checkpoint, refuse_graph
from edgewise.interop.huggingface.fill import Source, fill, linear
from edgewise.interop.huggingface.vit import MODERN, image_layer_sources, model_options
from edgewise.models.mae import MaskedAutoencoder, mae


def load_mae(checkpoint: Checkpoint, graph: Pattern | None) -> MaskedAutoencoder:
    """Build a ``mae`` model, with its decoder, from a checkpoint."""
    refuse_graph(
        graph, "None for a masked autoencoder, whose visible patches differ between images"
    )
    checkpoint = checkpoint.without_prefix("vit.").renamed(*MODERN)
    checkpoint.require(qkv_bias=True)
    model = mae(
        checkpoint["image_size"],
        checkpoint["num_channels"],
        **model_options(checkpoint),
        decoder_width=checkpoint["decoder_hidden_size"],
        decoder_depth=checkpoint["decoder_num_hidden_layers"],
        decoder_heads=checkpoint["decoder_num_attention_heads"],
        decoder_ffn_dim=checkpoint["decoder_intermediate_size"],
        epsilon=checkpoint["layer_norm_eps"],
        mask_ratio=checkpoint["mask_ratio"],
        normalised=checkpoint["norm_pix_loss"],
    )
    sources = {
        **linear("patches.project", "embeddings.patch_embeddings.projection"),
        "class_token.token": Source("embeddings.cls_token", lambda x: x[0, 0]),
        "positions.table": Source("embeddings.position_embeddings", lambda x: x[0]),
        **linear("encoder.norm", "layernorm"),
        **linear("narrow", "decoder.decoder_embed"),
        "hidden_token": Source("decoder.mask_token", lambda x: x[0, 0]),
        "decoder_positions.table": Source("decoder.decoder_pos_embed", lambda x: x[0]),
        **linear("decoder.norm", "decoder.decoder_norm"),
        **linear("predict", "decoder.decoder_pred"),
    }
    for i in range(checkpoint["num_hidden_layers"]):
        sources |= image_layer_sources(f"encoder.layers.{i}", f"layers.{i}")
    for i in range(checkpoint["decoder_num_hidden_layers"]):
        sources |= image_layer_sources(f"decoder.layers.{i}", f"decoder.decoder_layers.{i}")
    fill(model, sources, checkpoint)
    return model
