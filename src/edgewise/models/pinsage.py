"""PinSage: each node aggregates the nodes that random walks from it visit most.

Formula: n_i = Σ_j w_ij Q h_j; h_i' = unit(W [h_i, n_i] + b), and z = unit(h + Σ h'), where
    unit(x) = x / |x|
Graph: for each node, the T nodes most visited by random walks on the graph of interactions
Score: none; the weight of an edge is its fraction of the visits (importance pooling)
Normalisation: the weights of a node sum to 1; embeddings have unit length
Update: W of the concatenation [h_i, n_i]; embeddings of all layers are summed; s_ui = z_u · z_i
Paper: Ying et al., Graph convolutional neural networks for web-scale recommender systems, 2018
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import normalize

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph, Pattern, check_square, edges
from edgewise.graphs.graph import bind_to_nodes
from edgewise.layers import GraphLayer, Recommender
from edgewise.models.arguments import model_factory


class ImportancePooling(GraphLayer):
    r"""Weighted mean :math:`\sum_j w_{ij} h_j` of the T nodes most visited by random walks."""

    def __init__(self, top: int = 32, walk_length: int = 3) -> None:
        super().__init__()
        self.top, self.length = top, walk_length

    def forward(self, x: Tensor, graph: Pattern) -> Tensor:
        """Return features ``[N, width]``; the most visited nodes are computed once per graph."""
        graph = bind_to_nodes(graph, x)
        near, weight = graph.derived(_most_visited, self.top, self.length)
        return aggregate(x, near, weight=weight.to(x.dtype))


def _most_visited(graph: Graph, top: int, walk_length: int) -> tuple[Graph, Tensor]:
    near, weight = walk_neighbours(graph, walks=top, walk_length=walk_length, top=top)
    return near.to(graph.device), weight.to(graph.device)


class PinSageLayer(GraphLayer):
    """PinSage convolution without the paper's ReLU, initialised to the mean of the neighbours:
    several times faster to train with learned embeddings as the only features.
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
    """PinSage recommender: graph convolutions over the nodes most visited by random walks.

    Called as ``model(users [B], items [M], graph)``; see :class:`edgewise.layers.Recommender`.

    Args:
        width: embedding size.
        top: number of neighbours (the most visited nodes); also the number of random walks that
            start at a node.
        steps: length of a random walk in steps.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.pinsage(num_users=3, num_items=4)
        >>> pairs = torch.tensor([[0, 1, 2], [3, 4, 6]])  # items are numbered after users
        >>> interactions = graphs.edges(pairs, 7)
        >>> graph = interactions | interactions.transpose()
        >>> model(torch.tensor([0, 1]), torch.arange(4), graph).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        *,
        width: int = 64,
        depth: int = 1,
        top: int = 32,
        steps: int = 3,
    ) -> None:
        layers = (PinSageLayer(width, top, steps) for _ in range(depth))
        super().__init__(num_users, num_items, width, layers)

    def embed(self, graph: Pattern, nodes: Tensor | None = None) -> Tensor:
        if nodes is not None:
            raise ArgumentError(
                "data.fanouts",
                expected="no fanouts, because random walks choose the neighbours of PinSage on the "
                "whole graph",
                got="a sampled graph",
                remedy="leave out data.fanouts, or use the model lightgcn",
            )
        total = h = self.table()
        for layer in self.layers:
            h = layer(h, graph)
            total = total + h
        return normalize(total, dim=-1)


pinsage = model_factory(PinSage)


def walk_neighbours(
    graph: Graph, *, walks: int = 32, walk_length: int = 3, top: int = 32, seed: int = 0
) -> tuple[Graph, Tensor]:
    r"""Return the ``top`` nodes that random walks against the edges visit most from each node, as a
    graph, and their fractions of the visits ``[E]``. Ties go to the lower index.
    """
    for name, number in (("walks", walks), ("walk_length", walk_length), ("top", top)):
        check_range(name, number, "choose for example 32", least=1)
    check_square(graph, "index both kinds of node together, with edges in both directions")
    start, visited = _visits(graph, walks, walk_length, Generator().manual_seed(seed))
    keys, counts = (start * max(graph.num_sources, 1) + visited).unique(return_counts=True)
    target = keys // max(graph.num_sources, 1)
    # Sort the sources of each target by visits. The sort is stable, so ties go to the lower index.
    order = (target * (walks * walk_length + 1) - counts).sort(stable=True).indices
    target, source, counts = target[order], (keys % max(graph.num_sources, 1))[order], counts[order]
    num_visited = torch.bincount(target, minlength=graph.num_targets)
    is_top = runs_and_positions(num_visited)[1] < top
    target, source, counts = target[is_top], source[is_top], counts[is_top].double()
    total = torch.zeros(graph.num_targets, dtype=torch.double).index_add(0, target, counts)
    near = edges(torch.stack([source, target]), graph.num_targets)
    return near, (counts / total[target]).float()


def _visits(
    graph: Graph, walks: int, walk_length: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Return the start node and the visited node of each visit, except visits to the start."""
    target, order = graph.target.cpu().sort(stable=True)
    source = graph.source.cpu()[order]
    degree = torch.bincount(target, minlength=graph.num_targets)
    first = starts(degree)
    start = torch.arange(graph.num_targets).repeat_interleave(walks)
    node, start_nodes, visited = start, [], []
    for _ in range(walk_length):
        continues = degree[node] > 0
        start, node = start[continues], node[continues]
        # In float64 the product stays below the degree, so the index is in range.
        step = torch.rand(len(node), generator=generator, dtype=torch.double) * degree[node]
        node = source[first[node] + step.long()]
        away = node != start
        start_nodes.append(start[away])
        visited.append(node[away])
    return torch.cat(start_nodes), torch.cat(visited)
