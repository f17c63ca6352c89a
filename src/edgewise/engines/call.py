"""Input of an engine (an implementation of attention): tensors and properties of a call.

The properties of the call, such as device and dtype, decide which engine computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.torch_internals import in_functorch_transform, is_tracing
from edgewise.attention.biases import EdgeTerm, EdgeVector
from edgewise.attention.normalisers import Entmax
from edgewise.attention.scores import Score


@dataclass(eq=False)  # Frozen dataclasses take twice as long to create.
class AttentionCall:
    """Arguments of ``attend`` after all checks.

    Attributes:
        query, key, value: vectors of the nodes, ``[..., N, H, D]``, all of one dtype.
        batch: shape to which the leading dimensions of all arguments broadcast.
        score: score function.
        bias, gain: one number per edge and head in the dtype of :func:`accumulator`, or a table
            with the class of each edge. A score is multiplied by the gain; then the bias is added.
        edge_key, edge_value: vectors that are added to the key and the value of a source, one per
            edge and head, in the dtype of :func:`accumulator`, or in 16 bits if the nodes are in 16
            bits.
        dropout: probability that a weight is set to 0.
        seed: seed of the dropout mask.
        first_edge: index of the first edge in a larger graph, if this call computes a part of it.
            The parts then use different sections of one dropout mask.
        normaliser: α-entmax, or ``None`` for softmax.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    batch: torch.Size
    score: Score
    bias: EdgeTerm | None = None
    gain: EdgeTerm | None = None
    edge_key: EdgeVector | None = None
    edge_value: EdgeVector | None = None
    dropout: float = 0.0
    seed: int = 0
    first_edge: int = 0
    normaliser: Entmax | None = None

    def part(self, start: int, stop: int) -> AttentionCall:
        """Return the call with only the edges from ``start`` to ``stop - 1``."""
        edges = slice(start, stop)
        return replace(
            self,
            bias=_of_edges(self.bias, edges, 2),
            gain=_of_edges(self.gain, edges, 2),
            edge_key=_of_edges(self.edge_key, edges, 3),
            edge_value=_of_edges(self.edge_value, edges, 3),
            first_edge=self.first_edge + start,
        )

    def ungrouped(self) -> AttentionCall:
        """Return the call with the heads of key and value repeated to the number of query heads."""
        if self.key.shape[-2] == self.query.shape[-2]:
            return self
        key, value = (for_each_query(self.query, x) for x in (self.key, self.value))
        return replace(self, key=key, value=value)

    def chosen(self, edges: Tensor) -> AttentionCall:
        """Return the call restricted to some edges, for computing their scores.

        ``edges`` are the indices of these edges, and the scores have their order.
        """
        return replace(
            self,
            bias=_of_edges(self.bias, edges, 2),
            gain=_of_edges(self.gain, edges, 2),
            edge_key=_of_edges(self.edge_key, edges, 3),
            edge_value=None,
            dropout=0.0,
        )


def _of_edges(given: Any, edges: slice | Tensor, dims: int) -> Any:
    """Return the entries of some edges of ``given``.

    Args:
        given: a tensor with one entry per edge, a table with the class of each edge, edge features,
            or ``None``.
        edges: the edges, as a slice or as indices.
        dims: position of the edge dimension of a tensor, counted from the last dimension, which is
            1.
    """
    if given is None:
        return None
    if isinstance(given, Tensor):
        return given[(..., edges, *[slice(None)] * (dims - 1))]
    return given.edges(edges)


def for_each_query(query: Tensor, x: Tensor) -> Tensor:
    """Repeat the heads of keys or values ``x [..., N, H, D]`` to the number of query heads.

    This is grouped-query attention: consecutive query heads share a head of ``x``.
    """
    group = query.shape[-2] // max(x.shape[-2], 1)
    return x if group == 1 else x.repeat_interleave(group, dim=-2)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context that disables ``torch.autocast`` on this device, if it is enabled."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def accumulator(x: Tensor) -> torch.dtype:
    """Return the dtype for sums over this tensor: float64 for float64, otherwise float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def can_read(*tensors: Tensor) -> bool:
    """Return whether the values of these tensors can be read at once: on a CPU, not traced."""
    return tensors[0].device.type == "cpu" and not (is_tracing(tensors) or in_functorch_transform())


LEAST_DIGITS = 2.0**-14
"""Largest error of a log-sum-exp from which attention weights are computed."""


def exceeds_lse(largest: Tensor) -> bool:
    """Return whether a log-sum-exp of this size, kept as one number, would lose the sum.

    A log-sum-exp is the largest score plus the logarithm of a sum. If biases are around -1e9, the
    second term is rounded away, and weights computed from it no longer sum to 1.

    Args:
        largest: the largest bias of each target.
    """
    if largest.is_meta or not largest.numel():
        return False
    size = largest.detach().abs()
    bound = LEAST_DIGITS / torch.finfo(accumulator(largest)).eps
    return bool(((size > bound) & (size < torch.inf)).any())


@dataclass(frozen=True)
class Problem:
    """Properties of a call and its graph that determine the choice of an engine.

    Attributes:
        operation: "attend", "aggregate" or "edges" (scores or softmax of single edges).
        width, value_width: width of a head of keys and of values.
        grid: number of pairs of target and source that the engine ``dense`` computes, including
            pairs without an edge.
        full: whether ``dense`` needs no mask, because all pairs are edges or the mask is causal.
        tiled: number of pairs that the engine ``tiles`` computes, plus the cost of loading sources;
            ``None`` if it does not support the graph.
        packed: whether the graph consists of packed sequences, for which GPUs have special kernels
            (``tiles/varlen.py``).
        duplicates: function that returns whether an edge occurs twice. It is called only if needed,
            because it sorts the edges.
        lse: whether the log-sum-exp of the scores is returned too.
    """

    operation: str
    num_targets: int
    num_sources: int
    num_edges: int
    batch: int
    heads: int
    width: int
    value_width: int
    grid: int
    full: bool
    tiled: int | None
    packed: bool
    duplicates: Callable[[], bool]
    device: torch.device
    dtype: torch.dtype
    score: Score = None
    bias: bool = False
    table: bool = False  # Whether the bias is a table.
    offsets: bool = False  # Whether the bias is a table indexed by offset.
    gain: bool = False
    edge_vectors: bool = False
    dropout: float = 0.0
    lse: bool = False
    entmax: bool = False  # Whether the weights are normalised by entmax instead of softmax.
    reduce: str = "sum"
