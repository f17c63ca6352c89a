"""Input of an engine: the tensors of a call, and the properties that decide which engine runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from edgewise.biases import EdgeTerm, EdgeVector
from edgewise.normalisers import Entmax
from edgewise.scores import Score


@dataclass(eq=False)  # Frozen dataclasses take twice as long to create.
class AttentionCall:
    """Checked arguments of ``attend``.

    Edge terms and edge vectors are in the accumulation dtype (:func:`accumulator`). If nodes are
    16-bit, edge vectors may also be 16-bit. ``batch`` is the shape to which the leading dimensions
    of all arguments broadcast. ``normaliser`` is ``None`` for softmax. ``seed`` determines the
    dropout mask. If the call is a part of a larger call, ``first_edge`` is the index of the first
    edge in the larger graph, so that the parts use different sections of one dropout mask.
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
        """Return the call for the edges ``start`` to ``stop`` only."""
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
        """Return the call with keys and values repeated to as many heads as the queries have."""
        if self.key.shape[-2] == self.query.shape[-2]:
            return self
        key, value = (for_each_query(self.query, x) for x in (self.key, self.value))
        return replace(self, key=key, value=value)

    def chosen(self, edges: Tensor) -> AttentionCall:
        """Return the call for the scores of the selected edges, in the order given."""
        return replace(
            self,
            bias=_of_edges(self.bias, edges, 2),
            gain=_of_edges(self.gain, edges, 2),
            edge_key=_of_edges(self.edge_key, edges, 3),
            edge_value=None,
            dropout=0.0,
        )


def _of_edges(given: Any, edges: slice | Tensor, dims: int) -> Any:
    """Select edges of a tensor, whose last ``dims`` dimensions begin with the edge dimension."""
    if given is None:
        return None
    if isinstance(given, Tensor):
        return given[(..., edges, *[slice(None)] * (dims - 1))]
    return given.edges(edges)


def for_each_query(query: Tensor, x: Tensor) -> Tensor:
    """Repeat each head of keys or values ``[..., N, H, D]`` for its group of query heads."""
    group = query.shape[-2] // max(x.shape[-2], 1)
    return x if group == 1 else x.repeat_interleave(group, dim=-2)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which ``torch.autocast`` does not round operands on this device."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def accumulator(x: Tensor) -> torch.dtype:
    """Return the dtype in which sums over this tensor are accumulated."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class Problem:
    """Properties of a call and its graph that determine the choice of an engine.

    Attributes:
        grid: number of pairs in a dense layout, including pairs that are not edges.
        full: whether no mask is needed, because all pairs are edges or the mask is causal.
        tiled: number of pairs that groups of neighbouring targets span, if each target attends to
            runs of sources, else ``None``.
        packed: whether the runs are packed sequences, for which GPUs have kernels
            (``tiles/varlen.py``).
        duplicates: function that returns whether an edge occurs twice; a function, because the
            answer needs a sort.
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
    entmax: bool = False  # Whether the normaliser is entmax, not softmax.
    reduce: str = "sum"
