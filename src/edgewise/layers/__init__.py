"""Layers: what architectures are made of. Those that read along a graph take ``(x, graph)``."""

from __future__ import annotations

from edgewise.layers.attention import LinearByHead, MultiHeadAttention
from edgewise.layers.attention_pool import AttentionPool
from edgewise.layers.block import Block, NodeBatchNorm, Residual, TransformerLayer
from edgewise.layers.dropout import Dropout
from edgewise.layers.edge_transformer import EdgeTransformerLayer
from edgewise.layers.feed_forward import FeedForward, activation
from edgewise.layers.graph_network import GraphNetworkBlock
from edgewise.layers.jumping import JumpingKnowledge
from edgewise.layers.message_passing import MessagePassing
from edgewise.layers.multi_hop import MultiHopAttention, diffuse
from edgewise.layers.patches import PatchEmbedding
from edgewise.layers.pooling import ClassToken, Pool
from edgewise.layers.recommender import Recommender
from edgewise.layers.sequential import GraphLayer, GraphSequential
from edgewise.layers.walks import ImportancePooling, walk_neighbours

__all__ = [
    "AttentionPool",
    "Block",
    "ClassToken",
    "Dropout",
    "EdgeTransformerLayer",
    "FeedForward",
    "GraphLayer",
    "GraphNetworkBlock",
    "GraphSequential",
    "ImportancePooling",
    "JumpingKnowledge",
    "LinearByHead",
    "MessagePassing",
    "MultiHeadAttention",
    "MultiHopAttention",
    "NodeBatchNorm",
    "PatchEmbedding",
    "Pool",
    "Recommender",
    "Residual",
    "TransformerLayer",
    "activation",
    "diffuse",
    "walk_neighbours",
]
