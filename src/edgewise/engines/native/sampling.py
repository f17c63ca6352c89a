"""Sampling of the edges into nodes, by the C++ library or, without it, by PyTorch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, starts
from edgewise.engines.dropout import WORD, mix
from edgewise.engines.native import library


class SortedGraph(NamedTuple):
    """Edges sorted by target: node i has the sources ``column[pointer[i]:pointer[i + 1]]``.

    ``pointer`` is int64 ``[N + 1]`` and ``column`` int32 ``[E]``.
    """

    pointer: Tensor
    column: Tensor


class SampledEdges(NamedTuple):
    """Sampled edges ``[E]``: ``edge`` indexes the sorted graph, ``source`` and ``target`` the nodes
    of the sample.

    ``node`` has the sources that were not yet in the sample, in the order of their positions.
    """

    node: Tensor
    edge: Tensor
    source: Tensor
    target: Tensor


def sample_edges(
    graph: SortedGraph, targets: Tensor, fanout: int, *, seed: int, local: Tensor, count: int
) -> SampledEdges:
    """Sample ``fanout`` of the edges into each target without replacement, or all if it has fewer.

    The sample depends only on the seed, the targets and the graph, and is the same with and without
    the C++ library.

    Args:
        graph: the whole graph.
        targets: nodes ``[T]``, int64, that are in the sample.
        fanout: number of edges per target; -1 takes all.
        seed: random seed, below 2⁶⁴.
        local: position of each node in the sample, int32, -1 if it is not there; gets the positions
            of new nodes.
        count: number of nodes that are in the sample.
    """
    first = graph.pointer[targets]
    degree = graph.pointer[targets + 1] - first
    number = degree if fanout < 0 else degree.clamp(max=fanout)
    loaded = library.library()
    if loaded is not None:
        node, edge, source, target = torch.empty(4, int(number.sum()), dtype=torch.long)
        added = loaded.ew_sample(
            len(targets),
            *(x.data_ptr() for x in (targets, *graph)),
            *(fanout, seed, count),
            *(x.data_ptr() for x in (local, node, edge, source, target)),
        )
        return SampledEdges(node[:added], edge, source, target)
    edge = _sampled(targets, first, degree, number, seed)
    source_nodes = graph.column[edge].long()
    new = source_nodes[local[source_nodes] < 0]
    node, inverse = new.unique(return_inverse=True)
    occurrence = torch.full_like(node, len(new))
    occurrence.scatter_reduce_(0, inverse, torch.arange(len(new)), "amin")
    node = node[occurrence.argsort()]
    local[node] = torch.arange(count, count + len(node), dtype=torch.int32)
    target = local[targets].long().repeat_interleave(number)
    return SampledEdges(node, edge, local[source_nodes].long(), target)


def _sampled(targets: Tensor, first: Tensor, degree: Tensor, number: Tensor, seed: int) -> Tensor:
    """Return indices of ``number [T]`` edges of each target, those that ``ew_sample`` chooses."""
    edge, begin = ranges(first, number), starts(number)
    row_word = mix((seed & WORD) ^ mix(targets & WORD))
    is_drawn = number < degree
    # Floyd's algorithm, one draw of all targets at a time.
    for k in range(max((number * is_drawn).tolist(), default=0)):
        rows = (is_drawn & (number > k)).nonzero()[:, 0]
        largest = degree[rows] - number[rows] + k
        word = mix(((seed >> 32) & WORD) ^ mix(row_word[rows] ^ k))
        pick = first[rows] + ((word * (largest + 1)) >> 32)
        earlier = edge[begin[rows, None] + torch.arange(k)]
        is_taken = (earlier == pick[:, None]).any(1)
        edge[begin[rows] + k] = torch.where(is_taken, first[rows] + largest, pick)
    return edge
