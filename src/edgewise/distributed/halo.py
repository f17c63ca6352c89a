"""Attention of the targets of each process: it receives the source rows that it lacks, its halo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch
import torch.distributed as dist
from torch import Tensor

from edgewise._utils.arguments import check_choice, describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import Reduce, aggregate, attend, check_nodes
from edgewise.attention.checks import checked_term
from edgewise.distributed.exchange import (
    all_to_all,
    as_nodes,
    as_rows,
    check_agreement,
    communicating,
    gather,
    gather_objects,
    sendable,
)
from edgewise.distributed.partitions import TargetPartition, node_facts, trainable
from edgewise.graphs import Edges, Graph
from edgewise.graphs.slices import SourceRanges


class HaloPartition(TargetPartition):
    """Partition whose processes receive each row that their targets attend to once.

    The exchange lists are made once. Memory and traffic grow with the number of distinct sources,
    not with the number of edges.
    """

    _sized_remedy = (
        "choose a model that consists of sums and attention over a graph, such as gcn, gat, gcnii "
        "or gin, or call this one with the whole graph on one process"
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._results: dict[tuple[Any, ...], Any] = {}
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
        key, value = self._exchange(key, value)
        return attend(query, key, value, self._compact, engine=engine, **options)

    def _exchange(self, *nodes: Tensor) -> list[Tensor]:
        """Return the nodes that the targets of this process read, from nodes of this process."""
        rows = [index.to(nodes[0].device) for index in self._rows]
        gathered = [gather(as_rows(x), rows) for x in nodes]
        packed = all_to_all(torch.cat(gathered, dim=1), self._send, self._receive, self.group)
        columns = packed.split([x.shape[1] for x in gathered], dim=1)
        return [as_nodes(part, x) for part, x in zip(columns, nodes, strict=True)]

    def aggregate(
        self,
        value: Tensor,
        *,
        weight: Tensor | None = None,
        reduce: Reduce = "sum",
        engine: str = "auto",
    ) -> Tensor:
        """Compute :func:`edgewise.aggregate` of the nodes of this process, ``[..., N, H, D]``.

        ``weight`` has the edges of this process, or those of the whole graph.
        """
        if isinstance(value, Tensor) and value.dim() == 2:
            return self.aggregate(value[:, None], weight=weight, reduce=reduce, engine=engine)[:, 0]
        error = None
        try:
            check_choice("reduce", reduce, get_args(Reduce))
            check_nodes(value=value)
            self._check_count("value", value.shape[-3], self.sources)
            if weight is not None:
                is_plain = isinstance(weight, Tensor) and weight.dim() == 1
                weight = weight[:, None] if is_plain else weight
                weight = self._local_options({"gain": weight})["gain"]
                like = value.new_empty(()).expand(*value.shape[:-3], 1, *value.shape[-2:])
                checked_term("weight", weight, self.num_edges, like)
        except ArgumentError as invalid:
            error = invalid
        facts = {"reduce": reduce, "requires_grad of weight": bool(trainable(weight))}
        facts |= {} if error else node_facts(value=value)
        check_agreement(facts, error, self.group)
        (value,) = self._exchange(value)
        return aggregate(value, self._compact, weight=weight, reduce=reduce, engine=engine)

    @property
    def num_targets(self) -> int:
        """Number of targets of this process."""
        return self.target_sizes[self.rank]

    @property
    def num_sources(self) -> int:
        """Number of sources of this process."""
        return self.source_sizes[self.rank]

    def in_degree(self) -> Tensor:
        """Return the number of edges to each target of this process."""
        return self.graph.in_degree()

    def gather_source(self, x: Tensor) -> Tensor:
        """Return the source features of each edge of this process, ``[..., E, F]``, from those of
        the sources of this process, ``[..., N, F]``; all processes call it.
        """
        self._check_features(x, self.sources)
        (rows,) = self._exchange(x.unsqueeze(-2))
        return self._compact.to(x.device).gather_source(rows.squeeze(-2))

    def gather_target(self, x: Tensor) -> Tensor:
        """Return the target features of each edge of this process, from ``[..., N, F]``; all
        processes call it.
        """
        self._check_features(x, self.targets)
        return self._compact.to(x.device).gather_target(x)

    def _check_features(self, x: Tensor, rows: slice) -> None:
        """Raise the same ArgumentError on all processes unless each passes its nodes' features."""
        error, facts = None, dict[str, Any]()
        try:
            if not isinstance(x, Tensor) or x.dim() < 2:
                raise ArgumentError(
                    "x",
                    expected="features of nodes [..., N, F]",
                    got=describe(x),
                    remedy="pass one row for each node; numbers of nodes as x[:, None]",
                )
            self._check_count("x", x.shape[-2], rows)
            facts = node_facts(x=x.unsqueeze(-2))
        except ArgumentError as invalid:
            error = invalid
        check_agreement(facts, error, self.group)

    def derived(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(self, *args)``, computed once."""
        key = function, *args
        if key not in self._results:
            self._results[key] = function(self, *args)
        return self._results[key]

    def with_self_loops(self) -> HaloPartition:
        """Return a partition with self-loops for the nodes that have none; all processes call it.

        The self-loops come after the other edges, which keep their order.
        """
        return self.derived(_with_self_loops)  # type: ignore[no-any-return]

    def without_self_loops(self) -> HaloPartition:
        """Return a partition without self-loops; all processes call it."""
        return self.derived(_without_self_loops)  # type: ignore[no-any-return]

    def _of_edges(self, edge_index: Tensor) -> HaloPartition:
        """Return a partition with other edges of the targets of this process."""
        graph = Edges(edge_index, self.num_targets, sum(self.source_sizes))
        return HaloPartition(graph, self.target_sizes, self.source_sizes, self.group, is_local=True)

    def _loops(self) -> Tensor:
        """Return whether each edge of this process is a self-loop."""
        if self.target_sizes != self.source_sizes:
            raise ArgumentError(
                "graph",
                expected="a graph whose sources are its targets, which can have self-loops",
                got=f"{sum(self.target_sizes)} targets and {sum(self.source_sizes)} sources",
                remedy="use a layer without self-loops",
            )
        loops: Tensor = self.graph.source == self.graph.target + self.targets.start
        return loops

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


def _with_self_loops(partition: HaloPartition) -> HaloPartition:
    target = partition.graph.target
    loops = partition._loops()
    node = torch.arange(partition.num_targets, device=target.device)
    node = node[node.new_zeros(len(node)).index_add_(0, target, loops.long()) == 0]
    added = torch.stack([node + partition.targets.start, node])
    return partition._of_edges(torch.cat([partition.graph.edge_index, added], dim=1))


def _without_self_loops(partition: HaloPartition) -> HaloPartition:
    return partition._of_edges(partition.graph.edge_index[:, ~partition._loops()])
