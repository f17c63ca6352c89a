"""Attention over one graph whose nodes are divided among processes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Literal, Unpack, get_args

import torch.distributed as dist
from torch import Tensor

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import AttendOptions, NodeLayout
from edgewise.distributed.exchange import check_same, gather_objects, raise_first
from edgewise.distributed.halo import HaloPartition
from edgewise.distributed.heads import HeadPartition
from edgewise.distributed.partitions import Partition
from edgewise.distributed.ring import RingPartition
from edgewise.distributed.zigzag import ZigzagPartition
from edgewise.graphs import Edges, Graph, Pattern, check_graph, check_sized

Way = Literal["halo", "heads", "ring", "zigzag"]
"""How the processes of a group divide attention."""
WAYS: dict[str, Callable[..., Partition]] = {
    "halo": HaloPartition,
    "heads": HeadPartition,
    "ring": RingPartition,
    "zigzag": ZigzagPartition,
}


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Pattern,
    group: dist.ProcessGroup | None = None,
    *,
    by: Way = "halo",
    layout: NodeLayout | None = "NHD",
    engine: str = "auto",
    **options: Unpack[AttendOptions],
) -> Tensor:
    """Compute :func:`edgewise.attend` over one graph whose nodes are divided among processes.

    Each process passes its slice of the nodes, and gets the output of its targets. The result is
    that of one process with all nodes, up to rounding; so are the gradients. All processes of the
    group make the same call, which begins by comparing two numbers between the processes.

    Args:
        query: ``[..., N_dst of this process, H, D]``. The nodes of the first process come first in
            the graph, then those of the next process.
        key: ``[..., N_src of this process, H, D]``.
        value: ``[..., N_src of this process, H, Dv]``.
        graph: the whole graph or a pattern, which is partitioned in each call; or its
            :func:`partition`, made once.
        group: the processes; by default all. Only with a graph or a pattern.
        by: ``"halo"``, ``"heads"``, ``"ring"`` or ``"zigzag"``; see :func:`partition`.
        layout: as in :func:`edgewise.attend`.
        engine: as in :func:`edgewise.attend`.
        options: other arguments of :func:`edgewise.attend`. A tensor with one entry per edge has
            the edges of the whole graph, or, except by heads, only those of the targets of this
            process, in the same order. If the tensor is a parameter, each process has the gradient
            of its edges and heads, and the sum over the processes is the whole gradient. With
            dropout, each process needs a random seed of its own.

    Raises:
        ArgumentError: as in :func:`edgewise.attend`, on all processes if one of them has invalid
            arguments, or if sizes, dtypes or requires_grad differ between processes.
        ProcessError: another process has ended.

    References:
        Jacobs et al., DeepSpeed Ulysses, 2023 (by heads).
        Liu et al., Ring attention with blockwise Transformers, 2023 (by ring).
        Brandon et al., Striped attention, 2023 (balanced causal rings).

    Example:
        >>> import torch, torch.distributed as dist
        >>> from edgewise import distributed, graphs
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> distributed.attend(query, key, value, graphs.window(2)).shape
        torch.Size([10, 4, 8])
        >>> dist.destroy_process_group()
    """
    if not isinstance(graph, Partition):
        axis = -2 if layout == "HND" else -3
        num_targets, num_sources = (x.shape[axis] if x.dim() > 2 else 0 for x in (query, key))
        graph = partition(graph, num_targets, num_sources, group, by=by)
    return graph.attend(query, key, value, layout=layout, engine=engine, **options)


def partition(
    graph: Pattern,
    num_targets: int,
    num_sources: int | None = None,
    group: dist.ProcessGroup | None = None,
    *,
    by: Way = "halo",
    is_local: bool = False,
) -> Partition:
    """Divide one graph among processes, each of which has consecutive targets and sources.

    All processes of the group make this call, once for each graph. ``by`` is how they compute
    attention:

    * ``"halo"``: each process computes its targets, and receives the distinct sources of their
      edges. For sparse graphs, whose nodes are numbered so that neighbours are near.
    * ``"heads"``: each process has the whole graph and computes some of the heads over all nodes.
      Their number must be a multiple of the number of processes.
    * ``"ring"``: each process computes its targets, while blocks of all sources travel around. For
      dense graphs, such as ``causal()``: no process stores more than two blocks.
    * ``"zigzag"``: as by ring, but of 2P slices of the nodes, process r of P has the slices r and
      2P - 1 - r, the nodes ``positions`` of the partition. All processes then have the same number
      of edges on the causal graph. For ``causal()``, windows and ``complete()``.

    Args:
        graph: the whole graph, or a pattern.
        num_targets: number of targets of this process.
        num_sources: number of sources of this process, by default ``num_targets``.
        group: the processes; by default all.
        by: the way.
        is_local: ``graph`` has only the targets of this process, numbered from 0, and all sources;
            for a graph that fits in no single memory. By halo and by ring only.

    Raises:
        ArgumentError: no process group is initialised, the arguments differ between processes, or
            the graph does not have the numbers of nodes of all processes together.
        ProcessError: another process has ended.

    Example:
        >>> import edgewise, torch, torch.distributed as dist
        >>> from edgewise import distributed, graphs
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> divided = distributed.partition(graphs.window(2), 10)
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> edgewise.attend(query, key, value, divided).shape
        torch.Size([10, 4, 8])
        >>> print(divided.report(query, key, value).processes[0].sent_forward)
        0
        >>> dist.destroy_process_group()
    """
    if not (dist.is_available() and dist.is_initialized()):
        raise ArgumentError(
            "group",
            expected="an initialised process group",
            got="none",
            remedy='call torch.distributed.init_process_group("gloo"), in a script that torchrun '
            "starts",
        )
    group = group or dist.group.WORLD
    if group is None or dist.get_rank(group) < 0:
        raise ArgumentError(
            "group",
            expected="a group with this process",
            got="a group of other processes",
            remedy="make the call only on the processes of the group",
        )
    num_sources = num_targets if num_sources is None else num_sources
    error = None
    try:
        check_sized(graph) if is_local else check_graph(graph)
        check_choice("by", by, get_args(Way))
        for name, count in (("num_targets", num_targets), ("num_sources", num_sources)):
            check_range(name, count, "pass the nodes of this process", least=0, integer=True)
        if is_local and by in ("heads", "zigzag"):
            raise ArgumentError(
                "is_local",
                expected=f"False by {by}, which needs the whole graph on each process",
                got="True",
                remedy='use by="halo" or by="ring"',
            )
    except ArgumentError as invalid:
        error = invalid
    raise_first(error, group)
    facts = gather_objects((num_targets, num_sources, _describe(graph, is_local), by), group)
    target_sizes, source_sizes, descriptions, ways = zip(*facts, strict=True)
    check_same("graph", descriptions)
    check_same("by", ways)
    # With is_local, the graphs differ, so an error of one process is raised on all.
    targets = num_targets if is_local else sum(target_sizes)
    try:
        bound = graph.bind(targets, sum(source_sizes))
    except ArgumentError as invalid:
        error = invalid
    raise_first(error, group)
    options: dict[str, Any] = {"is_local": True} if is_local else {}
    return WAYS[by](bound, target_sizes, source_sizes, group, **options)


def _describe(graph: Pattern, is_local: bool) -> str:
    """Return a description that is the same on all processes if they have the same graph."""
    if not isinstance(graph, Graph):
        return repr(graph)
    if is_local:
        return f"a graph of {graph.num_sources} sources"
    listed = [member.edge_index for member in graph.parts if isinstance(member, Edges)]
    checksums = [zlib.crc32(edges.cpu().contiguous().numpy().data) for edges in listed]
    return f"{graph!r}, checksums of edges {checksums}" if checksums else repr(graph)
