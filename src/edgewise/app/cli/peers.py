"""Functions that copy weights from layers of PyTorch to layers of Edgewise."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from edgewise.layers import (
    AttentionBlock,
    CrossBlock,
    DecoderLayer,
    EncoderDecoder,
    MultiHeadAttention,
)


@torch.no_grad()
def copy_multi_head(reference: nn.MultiheadAttention, layer: MultiHeadAttention) -> None:
    """Copy the weights of a ``torch.nn.MultiheadAttention``."""
    assert reference.in_proj_weight is not None
    assert reference.in_proj_bias is not None
    weight, bias = reference.in_proj_weight, reference.in_proj_bias
    if layer.qkv is not None:
        layer.qkv.load_state_dict({"weight": weight, "bias": bias})
    else:
        linears = (layer.query, layer.key, layer.value)
        for linear, w, b in zip(linears, weight.chunk(3), bias.chunk(3), strict=True):
            linear.load_state_dict({"weight": w, "bias": b})
    layer.output.load_state_dict(reference.out_proj.state_dict())


@torch.no_grad()
def copy_encoder_layer(reference: nn.TransformerEncoderLayer, layer: AttentionBlock) -> None:
    """Copy the weights of a ``torch.nn.TransformerEncoderLayer``."""
    _copy_block(reference, layer, reference.norm2)


@torch.no_grad()
def copy_decoder_layer(reference: nn.TransformerDecoderLayer, layer: DecoderLayer) -> None:
    """Copy the weights of a ``torch.nn.TransformerDecoderLayer``."""
    _copy_block(reference, layer, reference.norm3)
    assert isinstance(layer.cross.sublayer, MultiHeadAttention)
    copy_multi_head(reference.multihead_attn, layer.cross.sublayer)
    layer.cross.norm.load_state_dict(reference.norm2.state_dict())


def copy_transformer(reference: nn.Transformer, model: EncoderDecoder) -> None:
    """Copy the weights of a ``torch.nn.Transformer``, with its two final norms."""
    halves: list[tuple[Any, Any, Any]] = [
        (reference.encoder, model.encoder, copy_encoder_layer),
        (reference.decoder, model.decoder, copy_decoder_layer),
    ]
    for reference_half, half, copy_layer in halves:
        for reference_layer, layer in zip(reference_half.layers, half.stack.layers, strict=True):
            copy_layer(reference_layer, layer)
        half.stack.norm.load_state_dict(reference_half.norm.state_dict())


def _copy_block(reference: Any, block: AttentionBlock | CrossBlock, last_norm: nn.Module) -> None:
    attention, network = block.attention, block.feed_forward
    assert isinstance(attention.sublayer, MultiHeadAttention)
    copy_multi_head(reference.self_attn, attention.sublayer)
    linears = [m for m in network.sublayer.children() if isinstance(m, nn.Linear)]
    pairs = zip(
        (reference.linear1, reference.linear2, reference.norm1, last_norm),
        (*linears, attention.norm, network.norm),
        strict=True,
    )
    for reference_module, module in pairs:
        module.load_state_dict(reference_module.state_dict())
