"""Layers: what architectures are made of. Those that read along a graph take ``(x, graph)``."""

from __future__ import annotations

from edgewise.layers.attention import LinearByHead, MultiHeadAttention
from edgewise.layers.attention_pool import AttentionPool
from edgewise.layers.block import AttentionBlock, Block, NodeBatchNorm, Residual, TransformerLayer
from edgewise.layers.cache import Cache
from edgewise.layers.captioner import Captioner
from edgewise.layers.decoder import CrossBlock, DecoderLayer
from edgewise.layers.dropout import Dropout
from edgewise.layers.edge_transformer import EdgeTransformerLayer
from edgewise.layers.edge_vectors import EdgeVectorLayer
from edgewise.layers.encoder_decoder import EncoderDecoder, PairModel
from edgewise.layers.feed_forward import FeedForward, GatedFeedForward, activation
from edgewise.layers.forecaster import Forecaster
from edgewise.layers.graph_network import GraphNetworkBlock
from edgewise.layers.heads import PooledHead, TokenHead
from edgewise.layers.jumping import JumpingKnowledge
from edgewise.layers.linear import Linear
from edgewise.layers.message_passing import MessagePassing
from edgewise.layers.multi_hop import MultiHopAttention, diffuse
from edgewise.layers.patches import PatchEmbedding
from edgewise.layers.pooling import ClassToken, Pool
from edgewise.layers.reader import Memory, Reader
from edgewise.layers.recommender import Recommender
from edgewise.layers.recurrent import RecurrentReader
from edgewise.layers.rescale import Rescaled
from edgewise.layers.response import Response
from edgewise.layers.scored import PairScores
from edgewise.layers.scores import SCORES, LearnedScore, learned_score
from edgewise.layers.sentence_scores import SentenceScores
from edgewise.layers.sequential import GraphLayer, GraphSequential
from edgewise.layers.start import normal_start, xavier_start
from edgewise.layers.text import LanguageHead, TextEmbedding, TextModel
from edgewise.layers.text_outputs import TextScores, TokenScores, WordScores
from edgewise.layers.tokens import Tokens
from edgewise.layers.walks import ImportancePooling, walk_neighbours

__all__ = [
    "SCORES",
    "AttentionBlock",
    "AttentionPool",
    "Block",
    "Cache",
    "Captioner",
    "ClassToken",
    "CrossBlock",
    "DecoderLayer",
    "Dropout",
    "EdgeTransformerLayer",
    "EdgeVectorLayer",
    "EncoderDecoder",
    "FeedForward",
    "Forecaster",
    "GatedFeedForward",
    "GraphLayer",
    "GraphNetworkBlock",
    "GraphSequential",
    "ImportancePooling",
    "JumpingKnowledge",
    "LanguageHead",
    "LearnedScore",
    "Linear",
    "LinearByHead",
    "Memory",
    "MessagePassing",
    "MultiHeadAttention",
    "MultiHopAttention",
    "NodeBatchNorm",
    "PairModel",
    "PairScores",
    "PatchEmbedding",
    "Pool",
    "PooledHead",
    "Reader",
    "Recommender",
    "RecurrentReader",
    "Rescaled",
    "Residual",
    "Response",
    "SentenceScores",
    "TextEmbedding",
    "TextModel",
    "TextScores",
    "TokenHead",
    "TokenScores",
    "Tokens",
    "TransformerLayer",
    "WordScores",
    "activation",
    "diffuse",
    "learned_score",
    "normal_start",
    "walk_neighbours",
    "xavier_start",
]
