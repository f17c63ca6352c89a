"""Neighbour sampling: mini-batches of parts of a graph that does not fit; plain PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from edgewise.batches import Batch
from edgewise.data.sampled import SampledLoader
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, check_square, edges
from edgewise.graphs.sampling import distinct_numbers
from edgewise.ragged import ranges, starts


@dataclass(frozen=True)
class Neighbourhood:
    """A part of a graph around some nodes.

    Attributes:
        nodes: ``[n]``, their numbers in the whole graph; the nodes asked for come first, in order.
        graph: their edges, over n nodes.
        edge: ``[e]``, the numbers of these edges in the whole graph, for features of edges.
        count: how many nodes were asked for.

    """

    nodes: Tensor
    graph: Graph
    edge: Tensor
    count: int


class NeighbourSampler:
    """Samples what a model of L layers reads for some nodes, a few edges a node.

    In hop l every node that was new in hop l - 1 gets ``fanouts[l]`` of the edges that it reads,
    drawn evenly and without replacement, or all of them where there are no more: L layers on the
    sampled graph give each node asked for what they would give on the whole graph, if every fanout
    is at least the largest degree.

    Args:
        graph: the whole graph, as many targets as sources.
        fanouts: edges a node in each hop, from the nodes asked for outwards; -1 takes all.

    Raises:
        ArgumentError: no fanouts, one that is neither -1 nor above 0, or a bipartite graph.

    Paper: Hamilton et al., Inductive representation learning on large graphs, 2017

    """

    def __init__(self, graph: Graph, fanouts: Sequence[int]) -> None:
        if not fanouts or any(k < 1 and k != -1 for k in fanouts):
            raise ArgumentError(
                "fanouts",
                expected="one number a layer, above 0, or -1 for all edges",
                got=repr(list(fanouts)),
                remedy="choose for example [10, 10]",
            )
        check_square(graph, "number both kinds of node in one row")
        self.fanouts = list(fanouts)
        self.num_nodes = graph.num_targets
        target, self._edge = graph.target.cpu().sort(stable=True)
        self._source = graph.source.cpu()[self._edge]
        self._degree = torch.bincount(target, minlength=self.num_nodes)
        self._first = starts(self._degree)
        # Where each node is in the present sample; all -1 between two calls.
        self._local = torch.full((self.num_nodes,), -1)

    def sample(self, seeds: Tensor, generator: Generator) -> Neighbourhood:
        """The sampled neighbourhood of distinct nodes ``[B]``.

        Raises:
            ArgumentError: a node is asked for twice, or is not in the graph.

        """
        self._check(seeds)
        local, nodes, frontier = self._local, [seeds], seeds
        local[seeds] = torch.arange(len(seeds))
        count, slots = len(seeds), []
        for fanout in self.fanouts:
            slot = self._draw(frontier, fanout, generator)
            source = self._source[slot]
            frontier = source[local[source] < 0].unique()
            local[frontier] = torch.arange(count, count + len(frontier))
            count += len(frontier)
            nodes.append(frontier)
            slots.append(slot)
        node, slot = torch.cat(nodes), torch.cat(slots)
        target = torch.searchsorted(self._first + self._degree, slot, right=True)
        pairs = torch.stack([local[self._source[slot]], local[target]])
        local[node] = -1
        return Neighbourhood(node, edges(pairs, count), self._edge[slot], len(seeds))

    def _draw(self, targets: Tensor, fanout: int, generator: Generator) -> Tensor:
        """Places in the sorted edges of what these nodes read."""
        degree, first = self._degree[targets], self._first[targets]
        few = degree <= fanout if fanout >= 0 else torch.ones_like(degree, dtype=torch.bool)
        every = ranges(first[few], degree[few])
        if few.all():
            return every
        many = degree[~few]

        def draw(below: Tensor) -> Tensor:
            return (torch.rand(len(many), generator=generator, dtype=torch.double) * below).long()

        nth = distinct_numbers(len(many), fanout, many, draw)
        return torch.cat([every, (first[~few, None] + nth).flatten()])

    def _check(self, seeds: Tensor) -> None:
        strange = (seeds < 0) | (seeds >= self.num_nodes)
        if strange.any():
            raise ArgumentError(
                "seeds",
                expected=f"nodes from 0 to {self.num_nodes - 1}",
                got=f"{int(seeds[strange][0])}",
                remedy="pass numbers of nodes of this graph",
            )
        if len(seeds.unique()) < len(seeds):
            raise ArgumentError(
                "seeds",
                expected="each node once",
                got=f"{len(seeds)} nodes, {len(seeds.unique())} of them distinct",
                remedy="pass seeds.unique()",
            )


def neighbour_batches(
    sampler: NeighbourSampler, x: Tensor, target: Tensor, nodes: Tensor, *, size: int, seed: int
) -> SampledLoader:
    """Batches that ask for ``size`` of ``nodes`` at once, sampled and ordered anew in every epoch.

    Args:
        sampler: of the whole graph.
        x: features of all nodes, ``[N, F]``.
        target: of all nodes, ``[N, ...]``.
        nodes: those to train on, ``[M]``.
        size: nodes in a batch.
        seed: with the epoch and the batch, it decides order and sample.

    Returns:
        A loader of batches with inputs ``(x [n, F], graph)``, of which the nodes asked for count.

    """

    def draw(index: Tensor, generator: Generator) -> Batch:
        part = sampler.sample(nodes[index], generator)
        return Batch((x[part.nodes], part.graph), target[nodes[index]], torch.arange(part.count))

    return SampledLoader(draw, len(nodes), size, seed)


def from_pyg_loader(loader: Iterable[Any]) -> Iterator[Batch]:
    """The same batches from PyTorch Geometric's ``NeighborLoader``, where pyg-lib is installed.

    Its batches have ``x``, ``y``, ``edge_index`` and ``batch_size``, the nodes asked for first.
    """
    for part in loader:
        count = int(part.batch_size)
        graph = edges(part.edge_index, len(part.x))
        yield Batch((part.x, graph), part.y[:count], torch.arange(count))
