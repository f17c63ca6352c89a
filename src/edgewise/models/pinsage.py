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
from torch import Tensor, nn
from torch.nn.functional import normalize

from edgewise.graphs import Pattern
from edgewise.layers import GraphLayer, ImportancePooling, Recommender
from edgewise.ranges import checked


class PinSageLayer(GraphLayer):
    """One convolution, linear and at first the neighbours' mean: without features, the paper's
    ReLU and random maps make embeddings learn several times as slowly.
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
    """Called ``model(graph, users [B], items [M], own [B] or none)``, scores as ``Recommender``."""
    layers = (PinSageLayer(width, top, steps) for _ in range(depth))
    return PinSage(num_users, num_items, width, layers)
