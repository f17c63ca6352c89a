"""Functions that copy weights from layers of other libraries to layers of Edgewise."""

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
from edgewise.models.gat import GATLayer
from edgewise.models.gcn import GCNLayer


@torch.no_grad()
def copy_multi_head(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    """Copy the weights of a ``torch.nn.MultiheadAttention`` to ``ours``."""
    assert theirs.in_proj_weight is not None
    assert theirs.in_proj_bias is not None
    if ours.qkv is not None:
        ours.qkv.load_state_dict({"weight": theirs.in_proj_weight, "bias": theirs.in_proj_bias})
    else:
        parts = zip(theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True)
        for linear, (weight, bias) in zip((ours.query, ours.key, ours.value), parts, strict=True):
            linear.load_state_dict({"weight": weight, "bias": bias})
    ours.output.load_state_dict(theirs.out_proj.state_dict())


@torch.no_grad()
def copy_encoder_layer(theirs: nn.TransformerEncoderLayer, ours: AttentionBlock) -> None:
    """Copy the weights of a ``torch.nn.TransformerEncoderLayer`` to ``ours``."""
    _copy_block(theirs, ours, theirs.norm2)


@torch.no_grad()
def copy_decoder_layer(theirs: nn.TransformerDecoderLayer, ours: DecoderLayer) -> None:
    """Copy the weights of a ``torch.nn.TransformerDecoderLayer`` to ``ours``."""
    _copy_block(theirs, ours, theirs.norm3)
    assert isinstance(ours.cross.sublayer, MultiHeadAttention)
    copy_multi_head(theirs.multihead_attn, ours.cross.sublayer)
    ours.cross.norm.load_state_dict(theirs.norm2.state_dict())


def copy_transformer(theirs: nn.Transformer, ours: EncoderDecoder) -> None:
    """Copy the weights of a ``torch.nn.Transformer``, with its two final norms, to ``ours``."""
    sides: list[tuple[Any, nn.Module, Any]] = [
        (theirs.encoder, ours.encoder, copy_encoder_layer),
        (theirs.decoder, ours.decoder, copy_decoder_layer),
    ]
    for side, reader, copy in sides:
        stack: Any = reader.stack
        for other, layer in zip(side.layers, stack.layers, strict=True):
            copy(other, layer)
        stack.norm.load_state_dict(side.norm.state_dict())


def _copy_block(theirs: Any, ours: AttentionBlock | CrossBlock, last_norm: nn.Module) -> None:
    attention, network = ours.attention, ours.feed_forward
    assert isinstance(attention.sublayer, MultiHeadAttention)
    copy_multi_head(theirs.self_attn, attention.sublayer)
    linears = [m for m in network.sublayer.children() if isinstance(m, nn.Linear)]
    pairs = zip(
        (*linears, attention.norm, network.norm),
        (theirs.linear1, theirs.linear2, theirs.norm1, last_norm),
        strict=True,
    )
    for mine, other in pairs:
        mine.load_state_dict(other.state_dict())


@torch.no_grad()
def copy_gat(theirs: Any, ours: GATLayer) -> None:
    """Copy the weights of PyTorch Geometric's ``GATConv`` to ``ours``."""
    ours.linear.weight.copy_(theirs.lin.weight)
    ours.att_src.copy_(theirs.att_src[0])
    ours.att_dst.copy_(theirs.att_dst[0])
    ours.bias.copy_(theirs.bias)


@torch.no_grad()
def copy_gcn(theirs: Any, ours: GCNLayer) -> None:
    """Copy the weights of PyTorch Geometric's ``GCNConv`` to ``ours``."""
    ours.linear.weight.copy_(theirs.lin.weight)
    ours.bias.copy_(theirs.bias)
