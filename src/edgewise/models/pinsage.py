"""PinSage: convolutions over the nodes that random walks visit most.

Formula: n_i = Σ_j w_ij Q h_j; h_i' = norm(W [h_i, n_i] + b), and z = norm(h + Σ h')
Graph: T most visited nodes of random walks on who chose what
Score: none; the weight of an edge is its share of the visits (importance pooling)
Normalisation: the weights of a node sum to 1; embeddings have length 1
Update: W from both; the layers' embeddings are added, and s_ui = z_u · z_i
Paper: Ying et al., Graph convolutional neural networks for web-scale recommender systems, 2018
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import normalize

from edgewise.arguments import check_least, checked
from edgewise.attention import aggregate
from edgewise.checks import bind_to_nodes
from edgewise.graphs import Graph, Pattern, check_square, edges
from edgewise.layers import GraphLayer, Recommender
from edgewise.ragged import runs_and_positions, starts


class ImportancePooling(GraphLayer):
    r"""The mean of the T nodes most visited, :math:`\sum_j w_{ij} h_j`.

    Args:
        top: T, and the number of walks from each node; see :func:`walk_neighbours`.
        length: steps of a walk.
    """

    def __init__(self, top: int = 32, length: int = 3) -> None:
        super().__init__()
        self.top, self.length = top, length

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """``[N, width]`` from x of that shape; the walks are made once a graph."""
        graph = bind_to_nodes(graph, x)
        near, weight = graph.cached(("walks", self.top, self.length), lambda: self._walk(graph))
        return aggregate(x, near, weight=weight.to(x.dtype))

    def _walk(self, graph: Graph) -> tuple[Graph, Tensor]:
        near, weight = walk_neighbours(graph, walks=self.top, length=self.length, top=self.top)
        return near.to(graph.device), weight.to(graph.device)


class PinSageLayer(GraphLayer):
    """One convolution, linear, which begins as the mean of the neighbours.

    Where nodes have no features but an embedding, the paper's ReLU and random maps make it learn
    several times as slowly.
    """

    def __init__(self, width: int, top: int, steps: int) -> None:
        super().__init__()
        self.pool = ImportancePooling(top, steps)
        self.message, self.update = nn.Linear(width, width), nn.Linear(2 * width, width)
        nn.init.eye_(self.message.weight)
        self.update.weight.data = torch.eye(2 * width)[width:].clone()

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        neighbours = self.pool(self.message(x), graph)
        return normalize(self.update(torch.cat([x, neighbours], dim=-1)), dim=-1)


class PinSage(Recommender):
    """See :func:`pinsage`."""

    def embed(self, graph: Pattern) -> Tensor:
        total = h = self.embedding.weight
        for layer in self.layers:
            h = layer(h, graph)
            total = total + h
        return normalize(total, dim=-1)


@checked()
def pinsage(
    num_users: int,
    num_items: int,
    *,
    width: int = 64,
    depth: int = 1,
    top: int = 32,
    steps: int = 3,
) -> PinSage:
    """Build a PinSage recommender.

    Called as ``model(users [B], items [M], graph)``; see :class:`edgewise.layers.Recommender`.

    Args:
        num_users: number of users.
        num_items: number of items.
        width: embedding size.
        depth: number of layers.
        top: number of most visited nodes kept as neighbours, and of random walks per node.
        steps: length of a random walk in steps.
    """
    layers = (PinSageLayer(width, top, steps) for _ in range(depth))
    return PinSage(num_users, num_items, width, layers)


def walk_neighbours(
    graph: Graph, *, walks: int = 32, length: int = 3, top: int = 32, seed: int = 0
) -> tuple[Graph, Tensor]:
    r"""Who a node's random walks visit most, and how often: importance pooling's weights.

    Every node sends out walks against the edges, each step to one of the nodes that the present one
    reads, all as likely; a walk ends early at a node that reads nothing.

    Args:
        graph: who reads whom, as many targets as sources.
        walks: how many from each node.
        length: steps of a walk.
        top: T, the most neighbours that are kept, ties by the lower number.
        seed: decides the walks.

    Returns:
        A graph of at most T edges a node, none to itself, sorted by target; and the weight of each
        edge ``[E]``: the share of its visits among those that are kept, so that a node's sum is 1.

    Raises:
        ArgumentError: targets and sources differ in number, or a number is below 1.

    Paper: Ying et al., Graph convolutional neural networks for web-scale recommender systems, 2018

    """
    for name, number in (("walks", walks), ("length", length), ("top", top)):
        check_least(name, number, 1, "choose for example 32")
    check_square(graph, "number both kinds of node in one row, and read both ways")
    start, visited = _visits(graph, walks, length, Generator().manual_seed(seed))
    keys, counts = (start * max(graph.num_sources, 1) + visited).unique(return_counts=True)
    target = keys // max(graph.num_sources, 1)
    # Most visits first within a target; the keys are sorted, so that ties keep their order.
    order = (target * (walks * length + 1) - counts).sort(stable=True).indices
    target, source, counts = target[order], (keys % max(graph.num_sources, 1))[order], counts[order]
    found = torch.bincount(target, minlength=graph.num_targets)
    kept = runs_and_positions(found)[1] < top
    target, source, counts = target[kept], source[kept], counts[kept].double()
    total = torch.zeros(graph.num_targets, dtype=torch.double).index_add(0, target, counts)
    near = edges(torch.stack([source, target]), graph.num_targets)
    return near, (counts / total[target]).float()


def _visits(graph: Graph, walks: int, length: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Where each visit's walk began and the node visited; never the start itself."""
    target, order = graph.target.cpu().sort(stable=True)
    source = graph.source.cpu()[order]
    degree = torch.bincount(target, minlength=graph.num_targets)
    first = starts(degree)
    start = torch.arange(graph.num_targets).repeat_interleave(walks)
    here, begun, visits = start, [], []
    for _ in range(length):
        going = degree[here] > 0
        start, here = start[going], here[going]
        # The product stays below the degree: float64 holds a degree and 53 random bits.
        step = torch.rand(len(here), generator=generator, dtype=torch.double) * degree[here]
        here = source[first[here] + step.long()]
        away = here != start
        begun.append(start[away])
        visits.append(here[away])
    return torch.cat(begun), torch.cat(visits)
