"""Sampling of the edges into nodes, by the C++ library or, without it, by PyTorch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.ragged import ranges, starts
from edgewise.engines.dropout import WORD, mix
from edgewise.engines.native import library


class SampledEdges(NamedTuple):
    """Sampled edges ``[E]``: ``edge`` indexes the whole graph, ``source`` and ``target`` the sample.

    ``node`` has the sources that were not yet in the sample, in the order of their positions.
    """

    node: Tensor
    edge: Tensor
    source: Tensor
    target: Tensor


def sample_edges(
    targets: Tensor,
    pointer: Tensor,
    column: Tensor,
    fanout: int,
    seed: int,
    local: Tensor,
    num_nodes: int,
) -> SampledEdges:
    """Sample ``fanout`` of the edges into each target without replacement, or all if it has fewer.

    The sample depends only on the seed, the targets and the graph, and is the same with and without
    the C++ library.

    Args:
        targets: nodes ``[T]``, int64, that are in the sample.
        pointer, column: the graph sorted by target: node i has the sources
            ``column[pointer[i]:pointer[i + 1]]``; int64 and int32.
        fanout: number of edges per target; -1 takes all.
        seed: random seed, below 2⁶⁴.
        local: position of each node in the sample, int32, -1 if it is not there; gets those of the
            new nodes.
        num_nodes: number of nodes that are in the sample.
    """
    first = pointer[targets]
    degree = pointer[targets + 1] - first
    number = degree if fanout < 0 else degree.clamp(max=fanout)
    count = int(number.sum())
    loaded = library.library()
    if loaded is None:
        return _sample_in_torch(targets, first, degree, number, column, seed, local, num_nodes)
    node, edge, source, target = torch.empty(4, count, dtype=torch.long)
    added = loaded.ew_sample(
        len(targets),
        *(x.data_ptr() for x in (targets, pointer, column)),
        fanout,
        seed,
        num_nodes,
        *(x.data_ptr() for x in (local, node, edge, source, target)),
    )
    return SampledEdges(node[:added], edge, source, target)


def _sample_in_torch(
    targets: Tensor,
    first: Tensor,
    degree: Tensor,
    number: Tensor,
    column: Tensor,
    seed: int,
    local: Tensor,
    num_nodes: int,
) -> SampledEdges:
    edge = ranges(first, number)
    begin = starts(number)
    row_word = mix((seed & WORD) ^ mix(targets & WORD))
    # Floyd's algorithm, one draw of all targets at a time.
    for k in range(int(number.where(number < degree, 0).max()) if len(number) else 0):
        rows = ((number < degree) & (number > k)).nonzero()[:, 0]
        largest = degree[rows] - number[rows] + k
        word = mix(((seed >> 32) & WORD) ^ mix(row_word[rows] ^ k))
        pick = first[rows] + ((word * (largest + 1)) >> 32)
        earlier = edge[begin[rows, None] + torch.arange(k)]
        is_taken = (earlier == pick[:, None]).any(1)
        edge[begin[rows] + k] = torch.where(is_taken, first[rows] + largest, pick)
    source_nodes = column[edge].long()
    new = source_nodes[local[source_nodes] < 0]
    node, inverse = new.unique(return_inverse=True)
    occurrence = torch.full_like(node, len(new)).scatter_reduce(
        0, inverse, torch.arange(len(new)), "amin"
    )
    node = node[occurrence.argsort()]
    local[node] = torch.arange(num_nodes, num_nodes + len(node), dtype=torch.int32)
    target = local[targets].long().repeat_interleave(number)
    return SampledEdges(node, edge, local[source_nodes].long(), target)
