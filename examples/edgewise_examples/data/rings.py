"""Graphs that are one ring of six nodes or two rings of three; the 1-WL test cannot tell which.

Every node has two neighbours, so message passing computes the same for all nodes of both graphs.

Paper: Sato, A survey on the expressive power of graph neural networks, 2020
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise.app.kinds.graphs.data import GraphData, graph_preprocessing, labelled
from edgewise.app.train import PackedGraphs, Splits
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings

NODES = 6
CLASSES = ["one ring", "two rings"]


@dataclass(frozen=True)
class Rings(GraphData):
    """Graph classification data set of two classes: one ring of six nodes, or two rings of three.

    The nodes are in random order. A model is called as ``model(x, graph, batch=members)``, where x
    is 1 at every node. If it has positional or structural encodings, their values are further
    keyword arguments.

    Attributes:
        count: number of training graphs; there are as many validation and as many test graphs.
        split_seed: seed of the node orders.
        batch_size: number of graphs per batch.
    """

    section = "Synthetic graphs"

    count: int = 1000
    split_seed: int = 0
    batch_size: int = 100

    def __post_init__(self) -> None:
        for name in ("count", "batch_size"):
            check_range(f"data.{name}", getattr(self, name), "choose for example 100", least=2)

    def load(self) -> Splits:
        generator = torch.Generator().manual_seed(self.split_seed)
        y = torch.arange(3 * self.count) % 2
        edges = [rings(kind + 1, torch.randperm(NODES, generator=generator)) for kind in y.tolist()]
        nodes = [torch.ones(NODES, 1)] * len(y)
        graphs = PackedGraphs.of(nodes, edges, [torch.empty(2 * NODES, 0)] * len(y))
        codes = PrecomputedEncodings(graphs)
        train, val, test = (
            labelled(codes, indices, y) for indices in torch.arange(len(y)).split(self.count)
        )
        sizes, preprocessing = {"in_width": 1, "out_width": 2}, graph_preprocessing(CLASSES)
        return Splits(
            sizes, train, val, test, self.batch_size, preprocessing=preprocessing, codes=codes
        )


def rings(count: int, order: Tensor) -> Tensor:
    """Return the edges ``[2, 2 n]`` of n nodes in ``count`` rings of equal size, both directions.

    Args:
        count: number of rings, a divisor of n.
        order: ``[n]``, indices of the nodes in their order along the rings, ring by ring.
    """
    of_ring = order.view(count, -1)
    causal = torch.stack([of_ring, of_ring.roll(-1, dims=1)]).flatten(1)
    return torch.cat([causal, causal.flip(0)], dim=1)
