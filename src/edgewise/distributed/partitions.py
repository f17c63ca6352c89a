"""Division of the nodes of one graph among processes, and the bytes that these exchange."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import astuple, dataclass, fields
from typing import Any, NoReturn, Unpack

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call

from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import AttendOptions, NodeLayout, check_nodes, checked_call
from edgewise.attention.biases import OffsetBias, Offsets, Projected, TableBias
from edgewise.attention.checks import in_autocast_dtype
from edgewise.attention.normalisers import Entmax
from edgewise.attention.scores import Additive
from edgewise.distributed.exchange import check_agreement, gather_objects
from edgewise.engines.call import of_edges
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import held_bytes
from edgewise.graphs.slices import edges_of_targets, slice_targets

EDGE_TERMS = {"bias": 2, "gain": 2, "edge_key": 3, "edge_value": 3}
"""Dict from the arguments with one entry per edge to their number of dimensions."""


@dataclass(frozen=True)
class Traffic:
    """Work, traffic and memory of one process in one call of ``attend``.

    Attributes:
        targets: number of its targets.
        sources: number of its sources.
        edges: number of edges that it computes.
        received_rows: number of rows of other processes' nodes that it receives in forward.
        sent_forward: bytes that it sends in forward.
        sent_backward: bytes that it sends in backward.
        node_bytes: bytes of query, key, value and output, and of the rows that it receives.
        graph_bytes: bytes of the graph and of the lists of rows to send, without the layouts that
            engines add.

    Example:
        >>> from edgewise import distributed, graphs
        >>> nodes = distributed.partition(graphs.window(8), 4000)  # doctest: +SKIP
        >>> nodes.report(query, key, value).processes[0].sent_forward  # doctest: +SKIP
        16384
    """

    targets: int
    sources: int
    edges: int
    received_rows: int
    sent_forward: int
    sent_backward: int
    node_bytes: int
    graph_bytes: int


@dataclass(frozen=True)
class Report:
    """Traffic of each process; printed as a table.

    Example:
        >>> from edgewise.distributed import Report, Traffic
        >>> traffic = Traffic(100, 100, 900, 16, 2048, 4096, 65536, 8192)
        >>> print(str(Report((traffic, traffic))).splitlines()[0][:39])
        process  targets  sources  edges  recei
    """

    processes: tuple[Traffic, ...]

    def __str__(self) -> str:
        names = ["process", *(field.name.replace("_", " ") for field in fields(Traffic))]
        rows = [(rank, *astuple(traffic)) for rank, traffic in enumerate(self.processes)]
        lines = [names, *([f"{number:,}" for number in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True))
            for line in lines
        )


class Partition(Pattern, ABC):
    """One graph whose nodes are divided among the processes of a group.

    :func:`edgewise.distributed.partition` makes it. The first process has the first targets and
    sources, the next process those that follow, and so on. :func:`edgewise.attend` accepts it in
    place of a graph, and so do layers and models that only pass the graph to attention, such as
    :class:`~edgewise.layers.TransformerLayer`; their features are those of the nodes of this
    process.

    Attributes:
        graph: graph of the targets of this process and all sources; of all targets for "heads".
        group: the processes.
        rank: rank of this process in the group.
        target_sizes: number of targets of each process.
        source_sizes: number of sources of each process.

    Example:
        >>> from edgewise import distributed, graphs
        >>> nodes = distributed.partition(graphs.window(8), 4000)  # doctest: +SKIP
        >>> model(x, nodes)  # features of 1,000 nodes on each of 4 processes  # doctest: +SKIP
    """

    graph: Graph
    _sized_remedy = (
        'use by="halo", or a layer that only passes the graph to edgewise.attend, such as '
        "layers.TransformerLayer"
    )

    def __init__(
        self, target_sizes: Sequence[int], source_sizes: Sequence[int], group: dist.ProcessGroup
    ) -> None:
        self.group, self.rank = group, dist.get_rank(group)
        self.target_sizes, self.source_sizes = tuple(target_sizes), tuple(source_sizes)

    def __repr__(self) -> str:
        return f"<{self.graph!r} on process {self.rank} of {self.world_size}>"

    def __getattr__(self, name: str) -> Any:
        """Raise ArgumentError for an attribute of graphs; only attention is divided."""
        if name not in {*dir(Graph), *Graph.__annotations__} or name.startswith("_"):
            raise AttributeError(name)
        self._refuse_undivided()

    def _refuse_undivided(self) -> NoReturn:
        raise ArgumentError(
            "graph",
            expected="a graph on one process, as processes divide only attention and, by halo, "
            "edgewise.aggregate",
            got=repr(self),
            remedy=self._sized_remedy,
        )

    def with_self_loops(self) -> Any:
        """Raise ArgumentError, except by halo."""
        self._refuse_undivided()

    def without_self_loops(self) -> Any:
        """Raise ArgumentError, except by halo."""
        self._refuse_undivided()

    def bind(self, num_targets: int, num_sources: int | None = None) -> Any:
        """Return this partition; raise ArgumentError for other numbers of nodes."""
        counts = num_targets, num_targets if num_sources is None else num_sources
        expected = self.target_sizes[self.rank], self.source_sizes[self.rank]
        if counts != expected:
            self._refuse(f"{expected[0]} targets and {expected[1]} sources", *counts)
        return self

    def _build(self, num_targets: int, num_sources: int) -> Any:
        return self.bind(num_targets, num_sources)

    def to(self, device: Any) -> Any:  # noqa: ARG002 - the graph follows the features
        """Return this partition."""
        return self

    @property
    def num_edges(self) -> int:
        """Number of edges of the targets of this process; by heads, of all edges."""
        return self._computed.num_edges

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return len(self.target_sizes)

    @property
    def targets(self) -> slice:
        """Slice of all targets that this process has."""
        return slice_of(self.target_sizes, self.rank)

    @property
    def sources(self) -> slice:
        """Slice of all sources that this process has."""
        return slice_of(self.source_sizes, self.rank)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        layout: NodeLayout | None = "NHD",
        engine: str = "auto",
        **options: Unpack[AttendOptions],
    ) -> Tensor:
        """Compute attention over the graph; :func:`edgewise.distributed.attend` describes it."""
        error, local = None, dict[str, Any](options)
        try:
            check_nodes(query=query, key=key, value=value)
            if layout == "HND":
                query, key, value = (x.transpose(-3, -2) for x in (query, key, value))
            if not query.dtype == key.dtype == value.dtype:
                query, key, value = in_autocast_dtype(query, key, value)
            local = self._local_options(local)
            self._check(query, key, value, local)
        except ArgumentError as invalid:
            error = invalid
        facts = {} if error else _facts(query, key, value, local)
        check_agreement(facts, error, self.group)
        out = self._attend(query, key, value, engine, local)
        return out.transpose(-3, -2) if layout == "HND" else out

    def report(self, query: Tensor, key: Tensor, value: Tensor) -> Report:
        """Return the traffic of each process for nodes ``[..., N, H, D]`` of these shapes.

        The tensors are those of this process, or tensors of the same shapes on
        ``torch.device("meta")``.
        """
        # Numbers for each node, by the shapes of this process, which are those of the others.
        in_query, in_key, in_value = (
            math.prod((*x.shape[:-3], *x.shape[-2:])) for x in (query, key, value)
        )
        size, output = query.dtype.itemsize, in_query // query.shape[-1] * value.shape[-1]
        processes = []
        for rank, (edges, graph_bytes) in enumerate(self._work):
            targets, sources = self.target_sizes[rank], self.source_sizes[rank]
            received, forward, backward, stored = self._traffic(
                rank, in_query, in_key, in_value, output
            )
            processes.append(
                Traffic(
                    targets,
                    sources,
                    edges,
                    received,
                    forward * size,
                    backward * size,
                    stored * size,
                    graph_bytes,
                )
            )
        return Report(tuple(processes))

    def _gather_work(self, *lists: Any) -> None:
        """Gather the number of edges and the bytes of graph and lists from each process."""
        graph = self._computed
        work = graph.num_edges, held_bytes([graph, *lists])
        self._work: list[tuple[int, int]] = gather_objects(work, self.group)

    def _check(self, query: Tensor, key: Tensor, value: Tensor, options: Mapping[str, Any]) -> None:
        """Raise ArgumentError for arguments that are invalid on this process."""
        nodes, graph = [], self._computed.to(query.device)
        for name, x, rows, count in (
            ("query", query, self.targets, graph.num_targets),
            ("key", key, self.sources, graph.num_sources),
            ("value", value, self.sources, graph.num_sources),
        ):
            self._check_count(name, x.shape[-3], rows)
            # The nodes of other processes are not here yet; only their number is checked.
            nodes.append(x.new_empty(()).expand(*x.shape[:-3], count, *x.shape[-2:]))
        checked_call(nodes[0], nodes[1], nodes[2], graph, **options)

    @staticmethod
    def _check_count(name: str, count: int, rows: slice) -> None:
        """Raise ArgumentError unless an argument has the nodes of this process."""
        if count != rows.stop - rows.start:
            raise ArgumentError(
                name,
                expected=f"{rows.stop - rows.start} nodes, those of this process",
                got=str(count),
                remedy=f"pass the nodes {rows.start} to {rows.stop - 1} of the graph, or make a "
                "partition for these sizes",
            )

    @property
    @abstractmethod
    def _computed(self) -> Graph:
        """Graph that :meth:`_attend` computes, possibly in several steps."""

    @abstractmethod
    def _local_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of ``attend`` with the entries that this process needs."""

    @abstractmethod
    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, engine: str, options: dict[str, Any]
    ) -> Tensor:
        """Compute attention after all checks."""

    @abstractmethod
    def _traffic(
        self, rank: int, query: int, key: int, value: int, output: int
    ) -> tuple[int, int, int, int]:
        """Return rows received, numbers sent forward and backward, and numbers of nodes stored.

        The arguments after ``rank`` are the numbers of each target or source.
        """


class TargetPartition(Partition):
    """Partition in which each process computes the edges of its targets.

    Args:
        graph: the whole graph, or with ``is_local`` the targets of this process and all sources.
    """

    def __init__(
        self,
        graph: Graph,
        target_sizes: Sequence[int],
        source_sizes: Sequence[int],
        group: dist.ProcessGroup,
        *,
        is_local: bool = False,
    ) -> None:
        super().__init__(target_sizes, source_sizes, group)
        first, last = self.targets.start, self.targets.stop
        self._all_edges = graph.num_edges
        self._edge_ids = lambda: edges_of_targets(graph, first, last)
        self.graph = graph if is_local else slice_targets(graph, first, last)

    @property
    def edge_ids(self) -> Tensor:
        """Indices of the edges of this process among all edges of the graph."""
        return self.graph.cached("edge_ids", self._edge_ids)

    def _local_options(self, options: dict[str, Any]) -> dict[str, Any]:
        edges = Selected(self._all_edges, lambda: self.edge_ids, self._target_index, self._sources)
        return edges.options(options, self._computed)

    @property
    def _target_index(self) -> Tensor | slice:
        """Targets of this process among all targets."""
        return self.targets

    @property
    def _sources(self) -> Tensor | slice:
        """Sources of the graph ``_computed`` among all sources."""
        return slice(None)


@dataclass(frozen=True)
class Selected:
    """Edges and nodes of a graph that are in a subgraph.

    Attributes:
        num_edges: number of edges of the graph.
        edge_ids: function that returns the edges in the order of the subgraph.
        targets, sources: the nodes.
    """

    num_edges: int
    edge_ids: Callable[[], Tensor]
    targets: Tensor | slice
    sources: Tensor | slice

    def options(self, options: Mapping[str, Any], subgraph: Graph) -> dict[str, Any]:
        """Return options of ``attend`` for a subgraph; tensors of another length are unchanged."""
        local = dict(options)
        for name, dims in EDGE_TERMS.items():
            term = local.get(name)
            if isinstance(term, OffsetBias):
                local[name] = OffsetBias(self._offsets(term.offsets, subgraph), term.table)
            elif _num_edges(term, dims) == self.num_edges != subgraph.num_edges:
                local[name] = of_edges(term, self.edge_ids(), dims)
        return local

    def _offsets(self, offsets: Offsets, subgraph: Graph) -> Offsets:
        device = offsets.classes.device
        graph = subgraph.to(device)

        def select() -> Offsets:
            target_place = offsets.target_place
            if len(target_place) != graph.num_targets:
                target_place = target_place[_on(device, self.targets)]
            source_place = offsets.source_place[_on(device, self.sources)]
            return Offsets(target_place, source_place, offsets.classes, graph)

        return graph.cached(("offsets", offsets), select)


def _on(device: torch.device, index: Tensor | slice) -> Tensor | slice:
    return index.to(device) if isinstance(index, Tensor) else index


def _num_edges(term: Any, dims: int) -> int | None:
    """Return the number of edges of a bias or of edge vectors, or None if it has no such shape."""
    shape = term.features.shape if isinstance(term, Projected) else getattr(term, "shape", ())
    axis = 0 if isinstance(term, Projected) else -dims
    return shape[axis] if len(shape) >= 2 and len(shape) >= -axis else None


def slice_of(sizes: Sequence[int], rank: int) -> slice:
    """Return the slice of all nodes that a process has."""
    first = sum(sizes[:rank])
    return slice(first, first + sizes[rank])


def _facts(query: Tensor, key: Tensor, value: Tensor, options: Any) -> dict[str, Any]:
    """Return what must be the same in the calls of all processes."""
    facts = node_facts(query=query, key=key, value=value)
    for name in (*EDGE_TERMS, "score", "normaliser"):
        facts[f"requires_grad of {name}"] = bool(trainable(options.get(name)))
    return facts


def node_facts(**nodes: Tensor) -> dict[str, Any]:
    """Return what must be the same in the nodes that all processes pass."""
    facts: dict[str, Any] = {}
    for name, x in nodes.items():
        facts["dtype"] = x.dtype
        facts[f"batch of {name}"] = list(x.shape[:-3])
        facts[f"heads of {name}"], facts[f"width of {name}"] = x.shape[-2:]
        # Gradients are exchanged only if all processes need them.
        facts[f"requires_grad of {name}"] = x.requires_grad
    return facts


def map_tensors(option: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return an option of ``attend`` with each of its tensors replaced by a function of it."""
    if isinstance(option, Tensor):
        return function(option)
    if isinstance(option, nn.Module):
        parameters = {name: function(x) for name, x in option.named_parameters()}
        return lambda query, key: functional_call(option, parameters, (query, key))
    if isinstance(option, TableBias | Projected | Additive | Entmax):
        tensors = {name: x for name, x in vars(option).items() if isinstance(x, Tensor)}
        option = copy(option)
        vars(option).update({name: function(x) for name, x in tensors.items()})
    return option


def trainable(option: Any) -> list[Tensor]:
    """Return the tensors of an option of ``attend`` that require gradients."""
    tensors: list[Tensor] = []

    def append(x: Tensor) -> Tensor:
        tensors.append(x)
        return x

    map_tensors(option, append)
    return [x for x in tensors if x.requires_grad]
