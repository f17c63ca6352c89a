"""LightGCN: embeddings of users and items are propagated along their interactions.

Formula: z = mean over k = 0 … K of (D^-½ A D^-½)^k e; s_ui = z_u · z_i, or their cosine
Graph: bipartite graph of interactions between users and items, in both directions
Score: none; an edge from j to i has weight 1/√(d_i d_j), with node degrees d, in all K hops
Normalisation: symmetric, by degree
Update: none; the hops are averaged
Paper: He et al., LightGCN: simplifying and powering graph convolution network, 2020
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import normalize

from edgewise.arguments import checked_factory
from edgewise.attention import aggregate
from edgewise.checks import bind_graph
from edgewise.graphs import Pattern
from edgewise.layers import Recommender, symmetric_weight


class LightGCN(Recommender):
    """LightGCN recommender: propagated embeddings of users and items, compared pair by pair.

    Called as ``model(users [B], items [M], graph)``; see :class:`edgewise.layers.Recommender`.

    Args:
        num_users: number of users.
        num_items: number of items.
        width: embedding size.
        hops: number of propagation steps (0 = none).
        cosine: score by cosine similarity instead of the inner product.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.lightgcn(num_users=3, num_items=4)
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
        hops: int = 2,
        cosine: bool = True,
    ) -> None:
        super().__init__(num_users, num_items, width)
        self.hops, self.cosine = hops, cosine

    def embed(self, graph: Pattern) -> Tensor:
        h = self.embedding.weight
        graph = bind_graph(graph, len(h), len(h), h.device)
        weight = symmetric_weight(graph).to(h.dtype)
        total = h
        for _ in range(self.hops):
            h = aggregate(h, graph, weight=weight)
            total = total + h
        return normalize(total, dim=-1) if self.cosine else total / (self.hops + 1)


lightgcn = checked_factory(LightGCN, hops=0)
