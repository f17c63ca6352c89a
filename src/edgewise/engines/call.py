"""Input of an engine (an implementation of attention): tensors and properties of a call.

The properties of the call, such as device and dtype, decide which engine computes it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from edgewise._utils.torch_internals import in_functorch_transform, is_tracing
from edgewise.attention.biases import EdgeTerm, EdgeVector
from edgewise.attention.normalisers import Entmax
from edgewise.attention.scores import Score

ACCUMULATORS = {
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
}
"""Dict from the dtype of query, key and value to the dtype in which the engines sum."""


@dataclass(eq=False)  # Frozen dataclasses take twice as long to create.
class AttentionCall:
    """Arguments of ``attend`` after all checks; query, key and value have the same dtype.

    Edge terms and vectors have the dtype in ``ACCUMULATORS``, or 16 bits for edge vectors of
    16-bit nodes.
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
        call = self.on_edges(slice(start, stop))
        return replace(call, first_edge=self.first_edge + start)

    def on_edges(self, edges: slice | Tensor) -> AttentionCall:
        """Return the call with only the edges of these indices."""
        return replace(
            self,
            bias=of_edges(self.bias, edges, 2),
            gain=of_edges(self.gain, edges, 2),
            edge_key=of_edges(self.edge_key, edges, 3),
            edge_value=of_edges(self.edge_value, edges, 3),
        )

    def ungrouped(self) -> AttentionCall:
        """Return the call with the heads of key and value repeated to the number of query heads."""
        if self.key.shape[-2] == self.query.shape[-2]:
            return self
        key, value = (for_each_query(self.query, x) for x in (self.key, self.value))
        return replace(self, key=key, value=value)


def of_edges(term: Any, edges: slice | Tensor, dims: int) -> Any:
    """Return the entries of some edges; a tensor has them in dimension ``-dims``."""
    if term is None:
        return None
    if isinstance(term, Tensor):
        return term[(..., edges, *[slice(None)] * (dims - 1))]
    return term.edges(edges)


def for_each_query(query: Tensor, x: Tensor) -> Tensor:
    """Repeat heads of ``x [..., N, H, D]`` so that consecutive query heads share one of them."""
    group = query.shape[-2] // max(x.shape[-2], 1)
    return x if group == 1 else x.repeat_interleave(group, dim=-2)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context that disables ``torch.autocast`` on this device, if it is enabled."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def can_read(*tensors: Tensor) -> bool:
    """Return whether the values of these tensors can be read at once: on a CPU, not traced."""
    return tensors[0].device.type == "cpu" and not (is_tracing(tensors) or in_functorch_transform())


LEAST_DIGITS = 2.0**-14
"""Largest error of a log-sum-exp from which attention weights are computed."""


def exceeds_lse(largest: Tensor) -> bool:
    """Return whether a log-sum-exp would round away the logarithm of the sum of the weights.

    It is stored as one number: the largest score plus this logarithm. With biases around -1e9,
    weights computed from it would not sum to 1. ``largest`` is the largest bias of each target.
    """
    if largest.is_meta or not largest.numel():
        return False
    size = largest.detach().abs()
    bound = LEAST_DIGITS / torch.finfo(ACCUMULATORS[largest.dtype]).eps
    return bool(((size > bound) & (size < torch.inf)).any())


class GraphFacts(NamedTuple):
    """Numbers by which a graph affects the choice of an engine."""

    num_targets: int
    num_sources: int
    num_edges: int
    grid: int  # Pairs of a target and a source in the dense layout.
    full: bool  # Whether PyTorch's attention needs no mask.
    tiled: int | None  # Pairs that the engine "tiles" computes; None if it cannot.
    packed: bool  # Whether the graph consists of packed sequences; see ``tiles/varlen.py``.


class Problem(NamedTuple):
    """Properties of a call and its graph that determine the choice of an engine.

    The first fields are those of :class:`GraphFacts`.
    """

    num_targets: int
    num_sources: int
    num_edges: int
    grid: int
    full: bool
    tiled: int | None
    packed: bool
    operation: str
    batch: int
    heads: int
    width: int
    value_width: int
    device: torch.device
    dtype: torch.dtype
    score: type[Any] = type(None)
    bias: bool = False
    table: bool = False  # Whether the bias is a table.
    offsets: bool = False  # Whether the bias is a table indexed by offset.
    gain: bool = False
    edge_vectors: bool = False
    dropout: bool = False
    lse: bool = False
    entmax: bool = False  # Whether the weights are normalised by entmax instead of softmax.
    reduce: str = "sum"
    duplicates: bool = False  # Whether an edge occurs twice; only "dense" reads it.
