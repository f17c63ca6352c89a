"""Layers: what architectures are made of. Those that read along a graph take ``(x, graph)``."""

from __future__ import annotations

from edgewise.layers.attention import LinearByHead, MultiHeadAttention
from edgewise.layers.block import NodeBatchNorm, Residual, TransformerLayer
from edgewise.layers.dropout import Dropout
from edgewise.layers.feed_forward import FeedForward, activation
from edgewise.layers.message_passing import MessagePassing
from edgewise.layers.patches import PatchEmbedding
from edgewise.layers.pooling import ClassToken, Pool
from edgewise.layers.sequential import GraphLayer, GraphSequential

__all__ = [
    "ClassToken",
    "Dropout",
    "FeedForward",
    "GraphLayer",
    "GraphSequential",
    "LinearByHead",
    "MessagePassing",
    "MultiHeadAttention",
    "NodeBatchNorm",
    "PatchEmbedding",
    "Pool",
    "Residual",
    "TransformerLayer",
    "activation",
]
