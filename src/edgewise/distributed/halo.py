"""Attention of the targets of each process: it receives the source rows that it lacks, its halo."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from edgewise.attention.attend import attend
from edgewise.distributed.exchange import (
    all_to_all,
    as_nodes,
    as_rows,
    communicating,
    gather,
    gather_objects,
    sendable,
)
from edgewise.distributed.partitions import TargetPartition
from edgewise.graphs import Graph
from edgewise.graphs.slices import SourceRanges


class HaloPartition(TargetPartition):
    """Partition whose processes receive each row that their targets attend to once.

    The exchange lists are made once. Memory and traffic grow with the number of distinct sources,
    not with the number of edges.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        ranges = SourceRanges.of(self.graph)
        self._compact = ranges.renumber(self.graph)
        self._needed = ranges.sources()
        ends = torch.tensor(self.source_sizes, device=self._needed.device).cumsum(0)
        counts = torch.bincount(
            torch.searchsorted(ends, self._needed, right=True), minlength=self.world_size
        )
        self._receive = counts.tolist()
        # Row r of the matrix: the number of rows that process r needs from each process.
        self._counts: list[list[int]] = gather_objects(self._receive, self.group)
        self._send = [counts[self.rank] for counts in self._counts]
        needed = sendable(self._needed, group=self.group)
        requested = needed.new_empty(sum(self._send))
        with communicating():
            dist.all_to_all_single(requested, needed, self._send, self._receive, group=self.group)
        self._rows = (requested - self.sources.start).split(self._send)
        self._gather_work(self._rows, self._needed)

    @property
    def _computed(self) -> Graph:
        return self._compact

    @property
    def _sources(self) -> Tensor:
        return self._needed

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, engine: str, options: dict[str, Any]
    ) -> Tensor:
        rows = [index.to(key.device) for index in self._rows]
        key_rows, value_rows = gather(as_rows(key), rows), gather(as_rows(value), rows)
        packed = torch.cat([key_rows, value_rows], dim=1)
        packed = all_to_all(packed, self._send, self._receive, self.group)
        key_rows, value_rows = packed.tensor_split([key_rows.shape[1]], dim=1)
        return attend(
            query,
            as_nodes(key_rows, key),
            as_nodes(value_rows, value),
            self._compact,
            engine=engine,
            **options,
        )

    def _traffic(
        self, rank: int, query: int, key: int, value: int, output: int
    ) -> tuple[int, int, int, int]:
        local, needed = self._counts[rank][rank], sum(self._counts[rank])
        received = needed - local
        sent = sum(counts[rank] for counts in self._counts) - local
        # The gradients of the rows that it received go back.
        nodes = self.target_sizes[rank] * (query + output)
        nodes += (self.source_sizes[rank] + needed) * (key + value)
        return received, sent * (key + value), received * (key + value), nodes
