"""Edgewise: attention over a graph, and every architecture of two fields on top of it."""

from __future__ import annotations

from edgewise import graphs
from edgewise.attention import aggregate, attend, attend_with_lse, explain_plan
from edgewise.biases import Projected, TableBias
from edgewise.edge_steps import attention_weights, edge_scores, edge_softmax
from edgewise.engines.merge import merge as merge_attention
from edgewise.engines.plan import using_engine
from edgewise.errors import ArgumentError, EdgewiseError
from edgewise.graphs import Graph, Pattern
from edgewise.scores import Additive, Dot

__version__ = "0.1.0"

__all__ = [
    "Additive",
    "ArgumentError",
    "Dot",
    "EdgewiseError",
    "Graph",
    "Pattern",
    "Projected",
    "TableBias",
    "aggregate",
    "attend",
    "attend_with_lse",
    "attention_weights",
    "edge_scores",
    "edge_softmax",
    "explain_plan",
    "graphs",
    "merge_attention",
    "using_engine",
]
