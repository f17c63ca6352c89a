"""What an engine is asked to compute: the tensors of a call, and the facts a choice depends on."""

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


@dataclass(eq=False)  # frozen takes twice as long to make
class AttentionCall:
    """Arguments of ``attend``, checked.

    Terms and edge vectors have the type of accumulation (:func:`accumulator`); beside 16-bit nodes
    edge vectors may also be of 16 bits. ``batch`` holds the leading dimensions of all arguments,
    broadcast together. ``normaliser`` is ``None`` for softmax.
    ``seed`` fixes the dropout mask; ``first_edge`` is the number of the first edge where the call
    is for a part of a larger graph, so that every part draws its own share of one mask.
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
        """The call for the edges ``start`` to ``stop`` alone."""
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
        """The call with a head of keys and values for each head of queries, where it has fewer."""
        if self.key.shape[-2] == self.query.shape[-2]:
            return self
        key, value = (for_each_query(self.query, x) for x in (self.key, self.value))
        return replace(self, key=key, value=value)

    def chosen(self, edges: Tensor) -> AttentionCall:
        """The call for the scores of these edges alone, in their order."""
        return replace(
            self,
            bias=_of_edges(self.bias, edges, 2),
            gain=_of_edges(self.gain, edges, 2),
            edge_key=_of_edges(self.edge_key, edges, 3),
            edge_value=None,
            dropout=0.0,
        )


def _of_edges(given: Any, edges: slice | Tensor, dims: int) -> Any:
    """The share of these edges, which are the first of a tensor's last ``dims`` dimensions."""
    if given is None:
        return None
    if isinstance(given, Tensor):
        return given[(..., edges, *[slice(None)] * (dims - 1))]
    return given.edges(edges)


def for_each_query(query: Tensor, x: Tensor) -> Tensor:
    """Keys or values ``[..., N, H, D]``, each head as often as heads of queries read it."""
    group = query.shape[-2] // max(x.shape[-2], 1)
    return x if group == 1 else x.repeat_interleave(group, dim=-2)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which ``torch.autocast`` does not round operands on this device."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def accumulator(x: Tensor) -> torch.dtype:
    """The type in which sums over numbers of this tensor's type are held."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@dataclass(frozen=True)
class Problem:
    """The facts about a call and its graph on which the choice of an engine depends.

    ``grid`` counts the pairs of a dense layout (edges or not), ``full`` says that all of them are
    edges or that the mask is causal, so that no mask is needed. ``tiled`` counts the pairs that
    groups of neighbouring targets span, where each target reads runs of sources; else it is
    ``None``. ``packed`` says that these runs are sequences for which GPUs have kernels (see
    ``tiles/varlen.py``). ``duplicates()``, whether an edge is there twice, takes a sort.
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
    table: bool = False  # the bias is one
    offsets: bool = False  # the bias is a table's by offset
    gain: bool = False
    edge_vectors: bool = False
    dropout: float = 0.0
    lse: bool = False
    entmax: bool = False  # in the place of softmax
    reduce: str = "sum"
