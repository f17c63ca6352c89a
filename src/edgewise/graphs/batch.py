"""Packed batches of graphs, which are block-diagonal, and the graph for pooling them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.arguments import check_count
from edgewise.dispatch_modes import disable_modes
from edgewise.errors import ArgumentError
from edgewise.graphs.compose import Composition
from edgewise.graphs.convert import check_graph, check_sized, common_device
from edgewise.graphs.edges import Edges
from edgewise.graphs.graph import Graph, Pattern
from edgewise.graphs.intervals import Intervals
from edgewise.graphs.runs import Runs, lists_of
from edgewise.ragged import segment_index, starts

Sizes = Sequence[int] | Tensor


def batch(
    graph: Pattern | Sequence[Graph], sizes: Sizes | None = None, source_sizes: Sizes | None = None
) -> Graph:
    """Pack graphs into one block-diagonal graph, without padding.

    Args:
        graph: a pattern, bound to every size; or a sequence of graphs.
        sizes: number of target nodes of each member; only with a pattern.
        source_sizes: number of source nodes of each member, for cross-attention. Default:
            ``sizes``.

    Raises:
        ArgumentError: sizes are negative or missing, or their numbers differ.

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
                expected="the number of nodes of each member",
                got="None",
                remedy="pass sizes=[n0, n1, ...], or a list of graphs",
            )
        targets = _listed("sizes", sizes)
        sources = targets if source_sizes is None else _listed("source_sizes", source_sizes)
        if len(targets) != len(sources):
            raise ArgumentError(
                "source_sizes",
                expected=f"one size for each of the {len(targets)} members",
                got=f"{len(sources)} sizes",
                remedy="give one number of targets and one of sources for each member",
            )
        # Batch each operand of a composition separately, so that both keep their structure.
        if isinstance(graph, Composition):
            left = batch(graph.left, targets, sources)
            right = batch(graph.right, targets, sources)
            return type(graph).of(left, right)  # type: ignore[return-value]
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
    """Return the bipartite graph from the nodes of a packed batch to its graphs, for pooling.

    Mean pooling is ``aggregate(x, membership(sizes), reduce="mean")``.

    Example:
        >>> from edgewise import graphs
        >>> graphs.membership([1, 2]).dense().long()  # 2 graphs, 3 nodes
        tensor([[1, 0, 0],
                [0, 1, 1]])
    """
    listed = _listed("sizes", sizes)
    with disable_modes():
        size = torch.tensor(listed, dtype=torch.long)
        start = starts(size)
        segments = torch.ones_like(size), size
        graph = Intervals(start, start + size, sum(listed), segments=segments)
    graph.name = f"membership of {size.numel()}"
    return graph


def _packed(members: Sequence[Graph]) -> Graph:
    device = common_device(members)
    counts = torch.tensor([(m.num_targets, m.num_sources) for m in members], dtype=torch.long)
    # Sizes stay on the CPU, because reading values from the GPU would wait for its queue.
    sizes = counts.view(-1, 2).T.contiguous()
    num_targets, num_sources = sizes.sum(1).tolist()
    target_sizes, source_sizes = sizes.to(device)
    segments = target_sizes, source_sizes
    runs = [m for m in members if isinstance(m, Intervals)]
    if members and len(runs) == len(members) and len({run.step for run in runs}) == 1:
        # One operation for all members: a loop over hundreds of molecules is slower than
        # attention.
        ahead = starts(source_sizes)[segment_index(target_sizes, num_targets)]
        start, stop = torch.cat([m.start for m in runs]), torch.cat([m.stop for m in runs])
        ends = start + ahead, stop + ahead
        return Intervals(*ends, num_sources, step=runs[0].step, segments=segments)
    lists = [found for m in members if (found := lists_of(m)) is not None]
    if members and len(lists) == len(members) and len({x.step for x in lists}) == 1:
        first_target, first_source = (starts(x).tolist() for x in sizes)
        row = torch.cat([x.row + first for x, first in zip(lists, first_target, strict=True)])
        start = torch.cat([x.start + first for x, first in zip(lists, first_source, strict=True)])
        stop = torch.cat([x.stop + first for x, first in zip(lists, first_source, strict=True)])
        step = lists[0].step
        return Runs(row, start, stop, num_targets, num_sources, step=step, segments=segments)
    offsets = torch.stack([starts(source_sizes), starts(target_sizes)])
    shifted = [m.edge_index + offsets[:, b, None] for b, m in enumerate(members)]
    joined = torch.cat(shifted, dim=1) if shifted else offsets
    return Edges(joined, num_targets, num_sources, segments)


def _listed(name: str, sizes: Sizes) -> list[int]:
    numbers = sizes.tolist() if isinstance(sizes, Tensor) else list(sizes)
    for number in numbers:
        check_count(name, number, 0, "pass the number of nodes of each member")
    return [int(number) for number in numbers]
