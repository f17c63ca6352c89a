"""Attention of some heads over the whole graph on each process (DeepSpeed-Ulysses).

Two all-to-all operations exchange slices of nodes with all heads for slices of heads with all
nodes, and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch.distributed as dist
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import attend
from edgewise.attention.biases import Projected, TableBias
from edgewise.attention.normalisers import Entmax
from edgewise.attention.scores import Additive
from edgewise.distributed.exchange import all_to_all
from edgewise.distributed.partitions import EDGE_TERMS, Partition
from edgewise.engines.call import for_each_query
from edgewise.graphs import Graph


class HeadPartition(Partition):
    """Partition whose processes compute all edges for their heads; each has the whole graph."""

    def __init__(
        self,
        graph: Graph,
        target_sizes: Sequence[int],
        source_sizes: Sequence[int],
        group: dist.ProcessGroup,
    ) -> None:
        super().__init__(target_sizes, source_sizes, group)
        self.graph = graph
        self._gather_work()

    @property
    def _computed(self) -> Graph:
        return self.graph

    def _local_options(self, options: dict[str, Any]) -> dict[str, Any]:
        return options

    def _check(self, query: Tensor, key: Tensor, value: Tensor, options: Any) -> None:
        super()._check(query, key, value, options)
        if query.shape[-2] % self.world_size:
            raise ArgumentError(
                "query",
                expected=f"a multiple of {self.world_size} heads, the number of processes",
                got=f"{query.shape[-2]} heads",
                remedy='change the number of heads, or use by="halo" or by="ring"',
            )

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, engine: str, options: dict[str, Any]
    ) -> Tensor:
        heads = query.shape[-2]
        if key.shape[-2] % self.world_size:
            key, value = for_each_query(query, key), for_each_query(query, value)
        head_slices = (
            self._to_heads(query, self.target_sizes),
            self._to_heads(key, self.source_sizes),
            self._to_heads(value, self.source_sizes),
        )
        count = heads // self.world_size
        local_heads = slice(self.rank * count, (self.rank + 1) * count)
        local_options = _of_heads(options, local_heads, heads)
        out = attend(*head_slices, self.graph, engine=engine, **local_options)
        return self._to_nodes(out)

    def _to_heads(self, x: Tensor, sizes: Sequence[int]) -> Tensor:
        """Return ``[..., N, H / P, D]`` from ``[..., N / P, H, D]``, for P processes."""
        by_process = x.unflatten(-2, (self.world_size, -1)).movedim((-3, -4), (0, 1))
        rows = by_process.flatten(0, 1)
        received = all_to_all(rows.flatten(1), [x.shape[-3]] * self.world_size, sizes, self.group)
        nodes: Tensor = received.unflatten(1, rows.shape[1:]).movedim(0, -3)
        return nodes

    def _to_nodes(self, x: Tensor) -> Tensor:
        """Return ``[..., N / P, H, D]`` from ``[..., N, H / P, D]``, for P processes."""
        rows = x.movedim(-3, 0)
        count = self.target_sizes[self.rank]
        received = all_to_all(
            rows.flatten(1), self.target_sizes, [count] * self.world_size, self.group
        )
        by_process = received.view(self.world_size, count, *rows.shape[1:])
        nodes: Tensor = by_process.movedim((0, 1), (-3, -4)).flatten(-3, -2)
        return nodes

    def _traffic(
        self, rank: int, query: int, key: int, value: int, output: int
    ) -> tuple[int, int, int, int]:
        # A key whose heads are no multiple of the processes is repeated, which is not counted.
        others = self.world_size - 1
        targets, sources = self.target_sizes[rank], self.source_sizes[rank]
        nodes = (targets * query + sources * (key + value)) * others // self.world_size
        all_targets, all_sources = sum(self.target_sizes), sum(self.source_sizes)
        outputs = (all_targets - targets) * output // self.world_size
        gradients = (all_targets - targets) * query + (all_sources - sources) * (key + value)
        backward = (gradients + targets * output * others) // self.world_size
        stored = targets * (query + output) + sources * (key + value)
        stored += (all_targets * (query + output) + all_sources * (key + value)) // self.world_size
        return all_sources - sources, nodes + outputs, backward, stored


def _of_heads(options: dict[str, Any], heads: slice, num_heads: int) -> dict[str, Any]:
    """Return the options of ``attend`` for a slice of the heads."""
    local = dict(options)
    for name, dims in EDGE_TERMS.items():
        term = local.get(name)
        if isinstance(term, Projected):
            local[name] = replace(term, weight=term.weight[heads])
        elif term is not None and term.shape[1 - dims] == num_heads > 1:
            after = [slice(None)] * (dims - 2)
            is_table = isinstance(term, TableBias)
            local[name] = (
                term.with_table(term.table[:, heads]) if is_table else term[(..., heads, *after)]
            )
    score, normaliser = local.get("score"), local.get("normaliser")
    if isinstance(score, Additive) and score.weight is not None:
        local["score"] = replace(score, weight=score.weight[heads])
    if isinstance(normaliser, Entmax) and isinstance(normaliser.alpha, Tensor):
        local["normaliser"] = Entmax(normaliser.alpha.expand(num_heads)[heads])
    return local
