"""Meaning of the fields of a recipe, read from the docstrings of its parts."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]{4}.*\n|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", re.MULTILINE)
MARKUP = re.compile(r":\w+:`~?(?:\w+\.)*([^`]+)`")
REFERENCE = re.compile(r"see (\w+)[.;]? ?(.*)")

MODEL_ARGUMENTS = {
    "act": "activation function of the feed-forward networks",
    "alpha": "restart probability of the random walk, which weights near nodes more",
    "attention_dropout": "dropout rate of the attention weights",
    "attention_graph": "graph of the attention within each graph of a batch",
    "axial": "rows and columns of axial position embeddings; none for one embedding per position",
    "axial_widths": "embedding dimensions of the axial positions, which sum to width",
    "base": "base of the wavelengths of rotary positions",
    "bias": "whether the linear layers of the attention have a bias",
    "bidirectional": "whether half of each state is computed in the opposite direction",
    "buckets": "number of hash buckets, even; several numbers are multiplied; none for twice the "
    "number of chunks",
    "chunk": "number of tokens in a chunk of LSH attention",
    "children": "maximum number of children with parameters of their own (2: binary trees); 0 "
    "sums all children",
    "cosine": "whether scores are cosine similarities instead of dot products",
    "decoder": "function that scores a pair of nodes",
    "decoder_depth": "number of decoder layers",
    "decoder_graph": "attention graph of the decoder",
    "degree": "number of expander edges per node",
    "depth": "number of layers",
    "drop_node": "fraction of nodes whose features are dropped in training",
    "dropout": "dropout rate",
    "edge_width": "number of edge features; 0 for none",
    "epsilon": "constant that layer norms add to the variance",
    "feed_forward": "hidden dimension of the feed-forward networks",
    "graph": "attention graph",
    "hash_seed": "seed of the hash functions; none draws new ones in each training step",
    "hashes": "number of hash rounds",
    "head_width": "dimension of an attention head; none for width / heads",
    "heads": "number of attention heads",
    "hidden": "dimension of the hidden layers",
    "hops": "number of propagation steps",
    "init_std": "standard deviation of the initial weights",
    "kernels": "kernel size of each convolution layer, odd numbers; the last one is repeated",
    "key_heads": "number of key and value heads (grouped-query attention); none for as many as "
    "heads",
    "kinds": "kinds of layers, lsh or local, repeated in this order",
    "last": "graph of the last layer: complete, or the input graph",
    "last_norm": "whether encoder and decoder end with a layer norm",
    "layer": "kind of message-passing layer",
    "length": "maximum number of tokens",
    "local": "message-passing layer of each block: gine reads edge features; none has attention "
    "alone",
    "local_chunk": "number of tokens in a chunk of local attention",
    "longest": "maximum distance; larger distances are clipped to it",
    "memory": "number of earlier states that each layer attends to",
    "most": "number of nodes in the context of each node, chosen by intimacy",
    "norm": "normalisation layer",
    "normaliser": "function that normalises the attention scores",
    "order": "normalisation before (pre) or after (post) each sublayer",
    "output_heads": "number of attention heads of the last layer",
    "padding": "token id whose embedding stays zero; none for no such token",
    "patch": "side of a patch, in pixels",
    "path": "maximum number of edges of a shortest path whose features are used",
    "pool": "pooling of node or token states into one output",
    "position": "positional encoding that is added to the node features",
    "position_size": "number of eigenvectors or random-walk probabilities of the encoding",
    "position_std": "standard deviation of the initial position embeddings",
    "projections": "kind of the query, key and value projections",
    "rates": "frequencies of the rotary positions; none computes them from base",
    "raw": "residual input of each layer: features averaged over neighbours (graph), own, or none",
    "reduce": "aggregation over neighbours",
    "rounds": "number of Weisfeiler-Lehman iterations of the structural encoding",
    "score": "score function of the attention",
    "seed": "seed of the random expander graphs",
    "steps": "number of random-walk steps that rank the neighbours",
    "target_vocabulary": "vocabulary size of the target; none shares that of the source",
    "tied": "whether the output layer shares the weights of the token embedding",
    "top": "number of neighbours that each node aggregates",
    "types": "number of segment types; 0 for no segment embedding",
    "unit_length": "whether states are normalised to unit length",
    "views": "number of random augmentations of a node in training",
    "virtual": "number of virtual nodes that all nodes are connected to",
    "width": "embedding dimension",
    "before": "number of preceding chunks that each chunk attends to",
    "after": "number of following chunks that each chunk attends to",
    "one_way": "whether attention is causal",
}
"""Meaning of arguments that many models share. The ``Args`` of a model's docstring override it."""


def field_meanings(part: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each argument in the docstrings of a function or class.

    The sections ``Args`` and ``Attributes`` are read. A class inherits the descriptions of its
    bases. An entry ``see :class:`Folds``` is replaced by the description in that class, which is a
    base or is imported by the module.

    Args:
        part: model function, or class of data, task, optimizer, schedule or trainer settings.
    """
    found: dict[str, str] = {}
    for owner in part.__mro__ if isinstance(part, type) else (part,):
        text = inspect.cleandoc(owner.__doc__ or "") + "\n"
        for section in SECTION.findall(text):
            for names, meaning in ENTRY.findall(section):
                for name in names.split(", "):
                    if name not in found:
                        found[name] = _resolved(_plain(meaning), name, owner)
    return found


def model_meanings(model: Callable[..., Any]) -> dict[str, str]:
    """Return the description of each argument of a model."""
    return MODEL_ARGUMENTS | field_meanings(model)


def _resolved(meaning: str, name: str, owner: Any) -> str:
    """Replace a reference to another class by the description there."""
    match = REFERENCE.match(meaning)
    if not match:
        return meaning
    other, rest = match.groups()
    bases = {base.__name__: base for base in getattr(owner, "__mro__", ())}
    target = bases.get(other) or getattr(sys.modules[owner.__module__], other, None)
    known = {} if target is None else field_meanings(target)
    described = known.get(name) or known.get(name.removeprefix("split_"))  # Folds has `seed`
    return "; ".join(part for part in (described or f"see {other}", rest) if part)


def _plain(text: str) -> str:
    """Return a description on one line, without markup."""
    return " ".join(MARKUP.sub(r"\1", text).replace("``", "").split()).rstrip(".")
