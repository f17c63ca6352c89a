"""Neighbour sampling: mini-batches of subgraphs of a large graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from edgewise._utils.errors import ArgumentError
from edgewise._utils.limits import check_memory
from edgewise._utils.ragged import ranges, starts
from edgewise.app.train.batches import Batch
from edgewise.app.train.sampled import Draw, SampledLoader
from edgewise.engines.native.sampling import SortedGraph, sample_edges
from edgewise.graphs import Graph, TypedGraph, check_square, edges
from edgewise.graphs.graph import WholeDegrees

TRAINED = 2000, 40
"""Bytes per node and per directed edge for training on a whole graph. GraphSAGE with two layers of
64 features takes 1.2 GB for 511,463 nodes and 4.4 million directed edges."""
EVALUATED = 800, 40
"""The same for evaluation on a whole graph: no gradients are kept."""


@dataclass(frozen=True)
class Neighbourhood:
    """Subgraph around ``count`` seed nodes, the first of ``nodes``; ``nodes`` and ``edge`` index
    the whole graph.
    """

    nodes: Tensor
    graph: Graph
    edge: Tensor
    count: int


class NeighbourSampler:
    """Sampler of the L-hop neighbourhood of seed nodes, with a limited number of edges per node.

    The first hop starts at the seed nodes, and each further hop at the nodes that the previous hop
    added. Each of these nodes gets ``fanouts[hop]`` of its incoming edges, sampled uniformly
    without replacement, or all if it has fewer. If every fanout is at least the maximum in-degree,
    L layers give the seed nodes the same outputs as on the whole graph; layers that divide by
    degrees, such as GCN, use those of the whole graph.

    Args:
        graph: the whole graph, with as many targets as sources, or its edges sorted by target,
            without self-loops. A typed graph gives typed samples.
        fanouts: edges per node in each hop, starting at the seed nodes; -1 takes all.

    Raises:
        ArgumentError: ``fanouts`` is empty or has a value that is neither -1 nor positive, or the
            graph is bipartite.

    Paper: Hamilton et al., Inductive representation learning on large graphs, 2017

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.app.train import NeighbourSampler
        >>> sampler = NeighbourSampler(graphs.window(2).bind(100), fanouts=[2, 2])
        >>> near = sampler.sample(torch.tensor([50]), torch.Generator().manual_seed(0))
        >>> near.graph.num_edges <= 2 + 2 * 2
        True
    """

    def __init__(self, graph: Graph | SortedGraph, fanouts: Sequence[int]) -> None:
        check_fanouts(fanouts)
        self.fanouts = list(fanouts)
        self._edge: Tensor | None = None
        self._loops: Tensor | None = None
        self._typed = graph if isinstance(graph, TypedGraph) else None
        if not isinstance(graph, SortedGraph):
            check_square(graph, "number the nodes of both types together, from 0")
            loops = graph.target[graph.source == graph.target].cpu()
            self._loops = loops.bincount(minlength=graph.num_targets) if len(loops) else None
            target, self._edge = graph.target.cpu().sort(stable=True)
            pointer = torch.searchsorted(target, torch.arange(graph.num_targets + 1))
            graph = SortedGraph(pointer, graph.source.cpu()[self._edge].int())
        self._sorted, self.num_nodes = graph, len(graph.pointer) - 1
        # Position of each node in the current sample; all -1 between two calls.
        self._local = torch.full((self.num_nodes,), -1, dtype=torch.int32)

    def with_fanouts(self, fanouts: Sequence[int]) -> NeighbourSampler:
        """Return a sampler of the same graph with other fanouts. Both use the same memory, so only
        one of them may sample at a time.
        """
        check_fanouts(fanouts)
        sampler = copy(self)
        sampler.fanouts = list(fanouts)
        return sampler

    def sample(self, seeds: Tensor, generator: Generator) -> Neighbourhood:
        """Sample the neighbourhood of distinct seed nodes ``[B]``; for one thread at a time.

        Raises:
            ArgumentError: a seed node is repeated or not in the graph.
        """
        self._check(seeds)
        try:
            return self._sample(seeds.long(), generator)
        except BaseException:  # An interrupted sample would change the next ones.
            self._local.fill_(-1)
            raise

    def _sample(self, seeds: Tensor, generator: Generator) -> Neighbourhood:
        seed = int(torch.randint(2**63 - 1, (), generator=generator))
        self._local[seeds] = torch.arange(len(seeds), dtype=torch.int32)
        nodes, hops, count = [seeds.contiguous()], [], len(seeds)
        for fanout in self.fanouts:
            hop = sample_edges(
                self._sorted, nodes[-1], fanout, seed=seed, local=self._local, count=count
            )
            hops.append(hop)
            nodes.append(hop.node)
            count += len(hop.node)
        node, edge = torch.cat(nodes), torch.cat([hop.edge for hop in hops])
        self._local[node] = -1
        pairs = [torch.cat([getattr(hop, end) for hop in hops]) for end in ("source", "target")]
        edge_index, edge = torch.stack(pairs), edge if self._edge is None else self._edge[edge]
        if self._typed is None:
            graph: Graph = edges(edge_index, count)
        else:
            graph = self._typed.renumbered(edge_index, edge, node)
        degree = self.degrees(node)
        loops = torch.zeros_like(degree) if self._loops is None else self._loops[node]
        graph.whole = WholeDegrees(degree, loops)
        return Neighbourhood(node, graph, edge, len(seeds))

    def degrees(self, nodes: Tensor) -> Tensor:
        """Return the in-degrees of some nodes in the whole graph."""
        return self._sorted.pointer[nodes + 1] - self._sorted.pointer[nodes]

    def sources(self, targets: Tensor) -> Tensor:
        """Return the sources of all edges into some nodes."""
        return self._sorted.column[ranges(self._sorted.pointer[targets], self.degrees(targets))]

    def _check(self, seeds: Tensor) -> None:
        check_nodes("seeds", seeds, self.num_nodes)
        if len(seeds.unique()) < len(seeds):
            raise ArgumentError(
                "seeds",
                expected="each node once",
                got=f"{len(seeds)} nodes, {len(seeds.unique())} of them distinct",
                remedy="pass seeds.unique()",
            )


def check_nodes(argument: str, nodes: Tensor, num_nodes: int) -> None:
    """Raise ArgumentError unless nodes are from 0 to ``num_nodes - 1``."""
    is_outside = (nodes < 0) | (nodes >= num_nodes)
    if is_outside.any():
        raise ArgumentError(
            argument,
            expected=f"nodes from 0 to {num_nodes - 1}",
            got=f"{int(nodes[is_outside][0])}",
            remedy="pass indices of nodes of this graph",
        )


def check_fanouts(
    fanouts: Sequence[int], argument: str = "fanouts", *, empty: bool = False
) -> None:
    """Raise ArgumentError unless each of the ``fanouts`` is positive or -1, and there is one."""
    if not (fanouts or empty) or any(k < 1 and k != -1 for k in fanouts):
        raise ArgumentError(
            argument,
            expected="one number per layer, above 0, or -1 for all edges",
            got=repr(list(fanouts)),
            remedy="choose for example [10, 10]",
        )


def check_graph_memory(
    argument: str, num_nodes: int, num_edges: int, fanouts: Sequence[int]
) -> None:
    """Raise ArgumentError if memory is too small to train on the whole graph or, with fanouts, to
    sample from it and evaluate on it.
    """
    per_node, per_edge = EVALUATED if fanouts else TRAINED
    remedy = "use a part of the edges, or a machine with more memory"
    if not fanouts:
        remedy = "sample neighbourhoods, --data.fanouts 10,10; for classes or numbers of nodes, "
        remedy += "the recipe nodes-on-disk keeps features and edges on disk"
    what = f"a graph of {num_nodes:,} nodes and {num_edges:,} edges"
    check_memory(argument, per_node * num_nodes + per_edge * num_edges, what, remedy)


def neighbour_batches(
    sampler: NeighbourSampler, x: Tensor, target: Tensor, nodes: Tensor, *, size: int, seed: int
) -> SampledLoader:
    """Return a loader of neighbourhoods of the training nodes ``[M]``, shuffled and sampled anew in
    every epoch, with inputs ``(x [n, F], graph)`` and the targets of ``size`` seed nodes. The
    features ``x`` may be sparse CSR.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.app.train import NeighbourSampler, neighbour_batches
        >>> ring = graphs.edges(torch.stack([torch.arange(10), (torch.arange(10) + 1) % 10]), 10)
        >>> sampler = NeighbourSampler(ring, fanouts=[1, 1])
        >>> x, target = torch.randn(10, 3), torch.arange(10) % 2
        >>> loader = neighbour_batches(sampler, x, target, torch.arange(6), size=2, seed=0)
        >>> len(loader)
        3
    """
    draw = neighbour_draw(sampler, partial(rows_of, x), target, nodes)
    return SampledLoader(draw, len(nodes), size, seed)


def neighbour_draw(
    sampler: NeighbourSampler, features: Callable[[Tensor], Tensor], target: Tensor, nodes: Tensor
) -> Draw:
    """Return a function that samples the batch of some of the seed nodes ``[M]``; ``features``
    returns the input features ``[n, F]`` of nodes.
    """

    def draw(index: Tensor, generator: Generator) -> Batch:
        seeds = nodes[index]
        neighbourhood = sampler.sample(seeds, generator)
        inputs = features(neighbourhood.nodes), neighbourhood.graph
        return Batch(inputs, target[seeds], torch.arange(neighbourhood.count))

    return draw


def rows_of(x: Tensor, index: Tensor) -> Tensor:
    """Return rows of a dense or ``torch.sparse_csr`` matrix."""
    if x.layout is torch.strided:
        return x[index]
    first = x.crow_indices()[index]
    number = x.crow_indices()[index + 1] - first
    entries, pointer = ranges(first, number), torch.cat([starts(number), number.sum()[None]])
    shape = len(index), x.shape[1]
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # CSR is in beta state.
        return torch.sparse_csr_tensor(
            pointer, x.col_indices()[entries], x.values()[entries], shape
        )


def from_pyg_loader(loader: Iterable[Any]) -> Iterator[Batch]:
    """Convert the batches of PyTorch Geometric's ``NeighborLoader``, which needs pyg-lib."""
    for batch in loader:
        count = int(batch.batch_size)
        graph = edges(batch.edge_index, len(batch.x))
        yield Batch((batch.x, graph), batch.y[:count], torch.arange(count))
