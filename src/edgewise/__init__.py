"""Edgewise: attention over graphs, and Transformers and graph neural networks built on it.

Subpackages (``ew.models``, ``ew.layers``, …) and PyTorch are imported on first use, so that the
command ``edgewise`` can set environment variables for PyTorch's threads before the import.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # Importing typing takes longer than the rest of this file.

if TYPE_CHECKING:
    from edgewise import decoding, distributed, encodings, explain, graphs, interop, layers, models
    from edgewise._utils.errors import ArgumentError, EdgewiseError
    from edgewise.app.runs.run import load
    from edgewise.app.runs.train_recipe import train
    from edgewise.attention.attend import (
        aggregate,
        attend,
        attend_with_lse,
        explain_plan,
        using_engine,
    )
    from edgewise.attention.biases import OffsetBias, Offsets, Projected, TableBias
    from edgewise.attention.normalisers import Entmax
    from edgewise.attention.received import attention_received
    from edgewise.attention.scores import Additive, Dot
    from edgewise.attention.steps import attention_weights, edge_scores, edge_softmax
    from edgewise.engines.merge import merge_attention
    from edgewise.graphs import Graph, Pattern

__version__ = "0.1.0"

__all__ = [
    "Additive",
    "ArgumentError",
    "Dot",
    "EdgewiseError",
    "Entmax",
    "Graph",
    "OffsetBias",
    "Offsets",
    "Pattern",
    "Projected",
    "TableBias",
    "aggregate",
    "attend",
    "attend_with_lse",
    "attention_received",
    "attention_weights",
    "decoding",
    "distributed",
    "edge_scores",
    "edge_softmax",
    "encodings",
    "explain",
    "explain_plan",
    "graphs",
    "interop",
    "layers",
    "load",
    "merge_attention",
    "models",
    "train",
    "using_engine",
]

_HOMES = {
    "Additive": "attention.scores",
    "ArgumentError": "_utils.errors",
    "Dot": "attention.scores",
    "EdgewiseError": "_utils.errors",
    "Entmax": "attention.normalisers",
    "Graph": "graphs",
    "OffsetBias": "attention.biases",
    "Offsets": "attention.biases",
    "Pattern": "graphs",
    "Projected": "attention.biases",
    "TableBias": "attention.biases",
    "aggregate": "attention.attend",
    "attend": "attention.attend",
    "attend_with_lse": "attention.attend",
    "attention_received": "attention.received",
    "attention_weights": "attention.steps",
    "edge_scores": "attention.steps",
    "edge_softmax": "attention.steps",
    "explain_plan": "attention.attend",
    "load": "app.runs.run",
    "merge_attention": "engines.merge",
    "train": "app.runs.train_recipe",
    "using_engine": "attention.attend",
}
"""Module that defines each public name. The other names of ``__all__`` are subpackages."""

# With __getattr__, a type checker would accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'edgewise' has no attribute {name!r}")
        if name not in _HOMES:
            return importlib.import_module(f"edgewise.{name}")
        value = getattr(importlib.import_module(f"edgewise.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
