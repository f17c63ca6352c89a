"""Data set CSL: circulant graphs of ten classes that the 1-WL test cannot distinguish.

A graph is a ring of 41 nodes in which each node is also linked to the nodes ``skip`` steps away.
The value of ``skip`` is the class of the graph. All nodes have degree four, so message passing
computes the same for all nodes and classes.

Papers: Murphy et al., Relational pooling for graph representations, 2019; Dwivedi et al.,
Benchmarking graph neural networks, 2020 (150 graphs, five folds).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise.app.kinds.graphs.data import GraphData, graph_preprocessing, labelled
from edgewise.app.train import PackedGraphs, Splits
from edgewise.app.train.folds import Folds
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings

NODES = 41
SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)


@dataclass(frozen=True)
class CSL(GraphData):
    """Graph classification data set CSL; its graphs are generated.

    A model is called as ``model(x, graph, batch=members)``, where x is 1 at every node. If it has
    positional or structural encodings, their values are further keyword arguments.

    Attributes:
        copies: number of graphs in each class; their nodes are permuted.
        folds, fold, val, split_seed: see :class:`~edgewise.app.train.folds.Folds`; folds are
            stratified by class.
        batch_size: number of graphs per batch.
    """

    copies: int = 15
    folds: int = 5
    fold: int = 0
    val: float = 0.25
    split_seed: int = 0
    batch_size: int = 15

    def __post_init__(self) -> None:
        self._folds()
        check_range("data.copies", self.copies, "choose for example 15", least=1)
        check_range("data.batch_size", self.batch_size, "choose for example 15", least=1)

    def _folds(self) -> Folds:
        return Folds(self.folds, self.fold, self.val, self.split_seed)

    def load(self) -> Splits:
        y = torch.arange(len(SKIPS)).repeat_interleave(self.copies)
        mixed = torch.Generator().manual_seed(self.split_seed)
        edges = [circulant(SKIPS[kind], torch.randperm(NODES, generator=mixed)) for kind in y]
        nodes = [torch.ones(NODES, 1)] * len(y)
        graphs = PackedGraphs.of(nodes, edges, [torch.empty(4 * NODES, 0)] * len(y))
        codes, index = PrecomputedEncodings(graphs), self._folds().split("stratified", y.tolist())
        train, val, test = (labelled(codes, index[split], y) for split in ("train", "val", "test"))
        sizes = {"in_width": 1, "out_width": len(SKIPS)}
        preprocessing = graph_preprocessing([f"skip {skip}" for skip in SKIPS])
        return Splits(
            sizes, train, val, test, self.batch_size, preprocessing=preprocessing, codes=codes
        )


def circulant(skip: int, order: Tensor) -> Tensor:
    """Return the edges ``[2, 4 n]`` of a ring of n nodes with skip links, in both directions.

    Args:
        skip: number of steps along the ring that a skip link spans, from 2 to less than n / 2.
        order: ``[n]``, indices of the nodes in their order along the ring.
    """
    ends = [torch.stack([order, order.roll(-step)]) for step in (1, skip)]
    causal = torch.cat(ends, dim=1)
    return torch.cat([causal, causal.flip(0)], dim=1)
