"""Layers: what architectures are made of. Those that read along a graph take ``(x, graph)``."""

from __future__ import annotations

from edgewise.layers.attention import LinearByHead, MultiHeadAttention
from edgewise.layers.attention_pool import AttentionPool
from edgewise.layers.block import Block, NodeBatchNorm, Residual, TransformerLayer
from edgewise.layers.dropout import Dropout
from edgewise.layers.edge_transformer import EdgeTransformerLayer
from edgewise.layers.edge_vectors import EdgeVectorLayer
from edgewise.layers.feed_forward import FeedForward, activation
from edgewise.layers.graph_network import GraphNetworkBlock
from edgewise.layers.jumping import JumpingKnowledge
from edgewise.layers.message_passing import MessagePassing
from edgewise.layers.multi_hop import MultiHopAttention, diffuse
from edgewise.layers.patches import PatchEmbedding
from edgewise.layers.pooling import ClassToken, Pool
from edgewise.layers.readout import AttentionReadout
from edgewise.layers.rescale import Rescaled
from edgewise.layers.sequential import GraphLayer, GraphSequential

__all__ = [
    "AttentionPool",
    "AttentionReadout",
    "Block",
    "ClassToken",
    "Dropout",
    "EdgeTransformerLayer",
    "EdgeVectorLayer",
    "FeedForward",
    "GraphLayer",
    "GraphNetworkBlock",
    "GraphSequential",
    "JumpingKnowledge",
    "LinearByHead",
    "MessagePassing",
    "MultiHeadAttention",
    "MultiHopAttention",
    "NodeBatchNorm",
    "PatchEmbedding",
    "Pool",
    "Rescaled",
    "Residual",
    "TransformerLayer",
    "activation",
    "diffuse",
]
