"""Layers that several models share. Graph layers are called as ``layer(x, graph)``."""

from __future__ import annotations

from edgewise.layers.cache import Cache
from edgewise.layers.encoder_decoder import EncoderDecoder, EncoderDecoderModel
from edgewise.layers.initialisation import init_normal, init_xavier
from edgewise.layers.message_passing import MessagePassing, symmetric_weight
from edgewise.layers.normalisers import LAYER_NORMALISERS, LearnedEntmax
from edgewise.layers.output_heads import (
    ClassificationHead,
    LanguageModel,
    LastTokenHead,
    Seq2SeqLanguageModel,
    TextClassifier,
    TokenClassificationHead,
    TokenClassifier,
)
from edgewise.layers.patches import PatchEmbedding
from edgewise.layers.penalty import add_penalty, collect_penalties
from edgewise.layers.pooling import (
    AttentionPool,
    ClassToken,
    Membership,
    Pool,
    PooledNodes,
    members_of,
    outputs_of_graphs,
    packed_graph,
)
from edgewise.layers.projections import JointLinear, LinearByHead
from edgewise.layers.recommender import Recommender
from edgewise.layers.recurrent import RecurrentBackbone
from edgewise.layers.scores import SCORES, LearnedScore, learned_score
from edgewise.layers.sequential import (
    GraphLayer,
    GraphSequential,
    check_edge_attr,
    given_or_ones,
    is_dense,
    refuse_edge_attr,
    shares_nodes,
)
from edgewise.layers.sparse import Dropout, Linear
from edgewise.layers.text import (
    Backbone,
    LanguageModelHead,
    Memory,
    SequenceBatch,
    TextEmbedding,
    TextModel,
)
from edgewise.layers.tokens import Tokens
from edgewise.layers.transformer import (
    AttentionBlock,
    CrossBlock,
    DecoderLayer,
    FeedForward,
    GatedFeedForward,
    MultiHeadAttention,
    NodeBatchNorm,
    Residual,
    TransformerLayer,
    TransformerStack,
    activation,
)
from edgewise.layers.typed import (
    TypedInput,
    TypedLinear,
    attend_relation_vectors,
    attend_relations,
    grouped_matmul,
    sum_relations,
    typed_graph,
)

__all__ = [
    "LAYER_NORMALISERS",
    "SCORES",
    "AttentionBlock",
    "AttentionPool",
    "Backbone",
    "Cache",
    "ClassToken",
    "ClassificationHead",
    "CrossBlock",
    "DecoderLayer",
    "Dropout",
    "EncoderDecoder",
    "EncoderDecoderModel",
    "FeedForward",
    "GatedFeedForward",
    "GraphLayer",
    "GraphSequential",
    "JointLinear",
    "LanguageModel",
    "LanguageModelHead",
    "LastTokenHead",
    "LearnedEntmax",
    "LearnedScore",
    "Linear",
    "LinearByHead",
    "Membership",
    "Memory",
    "MessagePassing",
    "MultiHeadAttention",
    "NodeBatchNorm",
    "PatchEmbedding",
    "Pool",
    "PooledNodes",
    "Recommender",
    "RecurrentBackbone",
    "Residual",
    "Seq2SeqLanguageModel",
    "SequenceBatch",
    "TextClassifier",
    "TextEmbedding",
    "TextModel",
    "TokenClassificationHead",
    "TokenClassifier",
    "Tokens",
    "TransformerLayer",
    "TransformerStack",
    "TypedInput",
    "TypedLinear",
    "activation",
    "add_penalty",
    "attend_relation_vectors",
    "attend_relations",
    "check_edge_attr",
    "collect_penalties",
    "given_or_ones",
    "grouped_matmul",
    "init_normal",
    "init_xavier",
    "is_dense",
    "learned_score",
    "members_of",
    "outputs_of_graphs",
    "packed_graph",
    "refuse_edge_attr",
    "shares_nodes",
    "sum_relations",
    "symmetric_weight",
    "typed_graph",
]


def __dir__() -> list[str]:
    return __all__
