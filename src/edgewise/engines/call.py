"""What an engine is asked to compute: the tensors of a call, and the facts a choice depends on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from edgewise.biases import EdgeTerm, EdgeVector, Projected, TableBias
from edgewise.engines.operands import transformed, watched
from edgewise.scores import Dot, Score


@dataclass(eq=False)  # frozen takes twice as long to make
class AttentionCall:
    """Arguments of ``attend``, in the notation of the design.

    ``seed`` fixes the dropout mask; ``first_edge`` is the number of the first edge where the call
    is for a part of a larger graph, so that every part draws its own share of one mask. ``joint``
    is ``[..., N, 3, H, D]`` where query, key and value are its parts and nothing else reads them.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    score: Score
    bias: EdgeTerm | None = None
    gain: EdgeTerm | None = None
    edge_key: EdgeVector | None = None
    edge_value: EdgeVector | None = None
    dropout: float = 0.0
    seed: int = 0
    first_edge: int = 0
    joint: Tensor | None = None

    @property
    def batch(self) -> torch.Size:
        """The leading dimensions of all arguments, broadcast together."""
        # torch.compile cannot trace the lock of a cached property.
        return self._broadcast() if torch.compiler.is_compiling() else self._batch

    @cached_property
    def _batch(self) -> torch.Size:
        batches = set(self.batches().values())
        if len(batches) == 1:  # the general rule takes a while, next to a step of decoding
            return batches.pop()
        return self._broadcast()

    @property
    def edge_vectors(self) -> bool:
        """Whether edges have a key or a value."""
        return self.edge_key is not None or self.edge_value is not None

    @property
    def facts(self) -> tuple[Any, ...] | None:
        """All that checks and the choice of an engine depend on, besides the graph, as a key.

        ``None`` where it would be long, where sizes are symbols, or under a function transform.
        """
        bare = self.bias is None and self.gain is None and not self.edge_vectors
        if not (bare and isinstance(self.score, Dot)) or watched() or transformed():
            return None
        query, key, value = self.query, self.key, self.value
        shapes, types = (query.shape, key.shape, value.shape), (query.dtype, key.dtype, value.dtype)
        return shapes, types, query.device, key.device, value.device, self.dropout

    def _broadcast(self) -> torch.Size:
        batch: torch.Size = torch.broadcast_shapes(*self.batches().values())
        return batch

    def batches(self) -> dict[str, torch.Size]:
        """The leading dimensions of each argument that has any of its own."""
        given = {"query": 3, "key": 3, "value": 3, "bias": 2, "gain": 2}
        given |= {"edge_key": 3, "edge_value": 3}
        tensors = {name: getattr(self, name) for name in given}
        return {
            name: x.shape[: -given[name]] for name, x in tensors.items() if isinstance(x, Tensor)
        }

    def part(self, start: int, stop: int) -> AttentionCall:
        """The call for the edges ``start`` to ``stop`` alone."""
        return replace(
            self,
            bias=_term(self.bias, start, stop),
            gain=_term(self.gain, start, stop),
            edge_key=_vector(self.edge_key, start, stop),
            edge_value=_vector(self.edge_value, start, stop),
            first_edge=self.first_edge + start,
        )

    def chosen(self, edges: Tensor) -> AttentionCall:
        """The call for these edges alone, in their order."""
        return replace(
            self,
            bias=_chosen(self.bias, edges, -2),
            gain=_chosen(self.gain, edges, -2),
            edge_key=_chosen(self.edge_key, edges, -3),
            edge_value=None,
            dropout=0.0,
        )


def _chosen(given: Any, edges: Tensor, dim: int) -> Any:
    if given is None:
        return None
    if isinstance(given, TableBias):
        return replace(given, index=given.index[edges])
    if isinstance(given, Projected):
        return replace(given, features=given.features[edges])
    return given.index_select(dim, edges)


def _term(term: EdgeTerm | None, start: int, stop: int) -> EdgeTerm | None:
    return term.edges(start, stop) if isinstance(term, TableBias) else _rows(term, -2, start, stop)


def _vector(vector: EdgeVector | None, start: int, stop: int) -> EdgeVector | None:
    if isinstance(vector, Projected):
        return vector.edges(start, stop)
    return _rows(vector, -3, start, stop)


def _rows(tensor: Tensor | None, dim: int, start: int, stop: int) -> Tensor | None:
    return None if tensor is None else tensor.narrow(dim, start, stop - start)


@dataclass(frozen=True)
class Problem:
    """The facts about a call and its graph on which the choice of an engine depends.

    ``grid`` counts the pairs of a dense layout (edges or not), ``full`` says that all of them are
    edges or that the mask is causal, so that no mask is needed. ``tiled`` counts the pairs that
    groups of neighbouring targets span, where each target reads one run of sources; else it is
    ``None``. ``duplicates()``, whether an edge is there twice, takes a sort.
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
    duplicates: Callable[[], bool]
    device: torch.device
    dtype: torch.dtype
    score: Score = None
    bias: bool = False
    gain: bool = False
    edge_vectors: bool = False
    dropout: float = 0.0
    lse: bool = False
    reduce: str = "sum"
