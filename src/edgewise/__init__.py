"""Edgewise: attention over a graph, and every architecture of two fields on top of it.

The rooms (``ew.models``, ``ew.layers``, ``ew.data`` …) are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from edgewise import graphs
from edgewise.attention import aggregate, attend, attend_with_lse, explain_plan
from edgewise.biases import Projected, TableBias
from edgewise.edge_steps import attention_weights, edge_scores, edge_softmax
from edgewise.engines.merge import merge as merge_attention
from edgewise.engines.plan import using_engine
from edgewise.errors import ArgumentError, EdgewiseError
from edgewise.graphs import Graph, Pattern
from edgewise.scores import Additive, Dot

if TYPE_CHECKING:
    from edgewise import (
        data,
        decoding,
        encodings,
        interop,
        layers,
        models,
        recipes,
        runs,
        tasks,
        training,
    )

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
    "data",
    "decoding",
    "edge_scores",
    "edge_softmax",
    "encodings",
    "explain_plan",
    "graphs",
    "interop",
    "layers",
    "merge_attention",
    "models",
    "recipes",
    "runs",
    "tasks",
    "training",
    "using_engine",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of the package's

    def __getattr__(name: str) -> object:
        if name in __all__:  # and is not there yet: a room
            return importlib.import_module(f"edgewise.{name}")
        raise AttributeError(f"module 'edgewise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
