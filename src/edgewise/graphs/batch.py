"""Packed batches of graphs, and the bipartite graphs that pool nodes or edges."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.dispatch_modes import disable_modes
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import segment_index, starts
from edgewise.graphs.convert import check_sized
from edgewise.graphs.graph import (
    Composition,
    Edges,
    Graph,
    Intervals,
    Pattern,
    Runs,
    call_for_graph,
    check_graph,
    common_device,
    runs_of,
)

Sizes = Sequence[int] | Tensor


def batch(
    graph: Pattern | Sequence[Graph], sizes: Sizes | None = None, source_sizes: Sizes | None = None
) -> Graph:
    """Pack several graphs into one block-diagonal graph, without padding.

    Args:
        graph: a sequence of graphs, or one pattern, which each graph of the batch is a copy of.
        sizes: number of target nodes of each graph; only with a pattern.
        source_sizes: number of source nodes of each graph, by default ``sizes``; only with a
            pattern.

    Raises:
        ArgumentError: a size is negative, ``sizes`` is missing for a pattern, or ``sizes`` and
            ``source_sizes`` have different lengths.

    Example:
        >>> from edgewise import graphs
        >>> graphs.batch(graphs.complete(), [1, 2]).dense().long()
        tensor([[1, 0, 0],
                [0, 1, 1],
                [0, 1, 1]])
    """
    if isinstance(graph, Pattern):
        if sizes is None:
            raise ArgumentError(
                "sizes",
                expected="the number of nodes of each graph in the batch, because graph is a"
                " pattern",
                got="None",
                remedy="pass sizes=[n0, n1, ...], or a list of graphs instead of the pattern",
            )
        targets = _listed("sizes", sizes)
        sources = targets if source_sizes is None else _listed("source_sizes", source_sizes)
        if len(targets) != len(sources):
            raise ArgumentError(
                "source_sizes",
                expected=f"as many numbers as sizes has, {len(targets)}",
                got=str(len(sources)),
                remedy="pass one number in sizes and one in source_sizes for each graph",
            )
        # Batch the operands of `a | b` separately, so that each keeps its intervals.
        if isinstance(graph, Composition):
            left = batch(graph.left, targets, sources)
            right = batch(graph.right, targets, sources)
            return type(graph)(left, right).on_nodes_of(left)
        members = [graph.bind(t, s) for t, s in zip(targets, sources, strict=True)]
    else:
        if not isinstance(graph, Sequence) or isinstance(graph, str):
            check_graph(graph)
        members = [check_sized(member) for member in graph]
    with disable_modes():
        packed = _packed(members)
    packed.name = f"batch of {len(members)}"
    return packed


def membership(sizes: Sizes) -> Graph:
    """Return the bipartite graph that pools each graph of a packed batch.

    Its sources are all nodes of the batch. Its targets are the graphs, and graph i attends to its
    ``sizes[i]`` nodes. Mean pooling is ``aggregate(x, membership(sizes), reduce="mean")``.

    Example:
        >>> from edgewise import graphs
        >>> graphs.membership([1, 2]).dense().long()  # 2 graphs, 3 nodes
        tensor([[1, 0, 0],
                [0, 1, 1]])
    """
    return call_for_graph(_membership, *_listed("sizes", sizes))


def _membership(*sizes: int) -> Graph:
    size = torch.tensor(sizes, dtype=torch.long)
    start = starts(size)
    segments = torch.ones_like(size), size
    graph = Intervals(start, start + size, sum(sizes), segments=segments)
    graph.name = f"membership of {size.numel()}"
    return graph


def incidence(graph: Graph) -> Edges:
    """Return the bipartite graph that connects each edge of ``graph`` with its target.

    Its sources are the E edges of ``graph`` and its targets are the targets of ``graph``.
    ``aggregate(messages, incidence(graph))`` sums messages ``[E, F]`` at their targets.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> graph = graphs.edges(torch.tensor([[0, 1, 2], [1, 1, 0]]), 3)
        >>> graphs.incidence(graph).dense().long()  # 3 targets, 3 edges
        tensor([[0, 0, 1],
                [1, 1, 0],
                [0, 0, 0]])
    """
    return check_sized(graph).derived(_incidence)


def _incidence(graph: Graph) -> Edges:
    edge = torch.arange(graph.num_edges, device=graph.device)
    return Edges(torch.stack([edge, graph.target]), graph.num_targets, graph.num_edges)


def _packed(members: Sequence[Graph]) -> Graph:
    device = common_device(members)
    counts = torch.tensor([(m.num_targets, m.num_sources) for m in members], dtype=torch.long)
    # Keep a copy of the sizes on the CPU, because reading values from the GPU waits for it.
    sizes = counts.view(-1, 2).T.contiguous()
    num_targets, num_sources = sizes.sum(1).tolist()
    target_sizes, source_sizes = sizes.to(device)
    segments = target_sizes, source_sizes
    intervals = [m for m in members if isinstance(m, Intervals)]
    if members and len(intervals) == len(members) and len({m.step for m in intervals}) == 1:
        # Shift all graphs in one operation. A loop over hundreds of molecules would take longer
        # than the attention itself.
        offset = starts(source_sizes)[segment_index(target_sizes, num_targets)]
        start = torch.cat([m.start for m in intervals]) + offset
        stop = torch.cat([m.stop for m in intervals]) + offset
        return Intervals(start, stop, num_sources, step=intervals[0].step, segments=segments)
    runs = [x for x in map(runs_of, members) if x is not None]
    if members and len(runs) == len(members) and len({x.step for x in runs}) == 1:
        first_target, first_source = (starts(x).tolist() for x in sizes)
        row = torch.cat([x.row + first for x, first in zip(runs, first_target, strict=True)])
        start = torch.cat([x.start + first for x, first in zip(runs, first_source, strict=True)])
        stop = torch.cat([x.stop + first for x, first in zip(runs, first_source, strict=True)])
        step = runs[0].step
        return Runs(row, start, stop, num_targets, num_sources, step=step, segments=segments)
    offsets = torch.stack([starts(source_sizes), starts(target_sizes)])
    shifted = [m.edge_index + offsets[:, b, None] for b, m in enumerate(members)]
    joined = torch.cat(shifted, dim=1) if shifted else offsets
    return Edges(joined, num_targets, num_sources, segments)


def _listed(name: str, sizes: Sizes) -> list[int]:
    numbers = sizes.tolist() if isinstance(sizes, Tensor) else list(sizes)
    for number in numbers:
        check_range(name, number, "pass the number of nodes of each graph", least=0, integer=True)
    return [index(number) for number in numbers]
