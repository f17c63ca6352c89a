"""Baselines of link prediction: common neighbours, Adamic–Adar, resource allocation and Katz."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from edgewise.app.train.baseline import Candidate, Score
from edgewise.app.train.batches import Batch
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits
from edgewise.encodings import common_neighbours
from edgewise.graphs import Graph

INDICES = ("common neighbours", "Adamic–Adar", "resource allocation")
KATZ = (1e-4, 1e-3, 1e-2)
"""Settings: β of the Katz index, in which a path of l edges has the weight β to the power of l."""
LARGEST = 12_000
"""Maximum number of nodes for Katz, which computes a dense matrix of all pairs of nodes."""


def candidates(_recipe: Recipe, splits: Splits) -> Iterator[Candidate]:
    """Yield each baseline with each setting; they need no fitting, only the graph of a batch."""
    for column, name in enumerate(INDICES):
        yield Candidate(name, "", partial(_index, column))
    for weight in KATZ if splits.model_arguments["num_nodes"] <= LARGEST else ():
        yield Candidate("Katz", f"weight {weight:g}", partial(_katz, weight), slow=True)


def _index(column: int) -> Score:
    def score(batch: Batch) -> Tensor:
        pairs, graph = batch.inputs
        return common_neighbours(pairs, graph)[:, column]

    return score


def _katz(weight: float) -> Score:
    index = cache(partial(katz, weight=weight))

    def score(batch: Batch) -> Tensor:
        (source, target), graph = batch.inputs
        return index(graph)[source, target]

    return score


def katz(graph: Graph, weight: float) -> Tensor:
    r"""Return :math:`\sum_{l=1}^{4} β^l (A^l)_{uv}` for all pairs of nodes, ``[N, N]``, where the
    weight is β and A the adjacency matrix of an undirected graph.
    """
    a = adjacency(graph).astype(np.float32) * np.float32(weight)
    paths = edge = a.toarray()
    for _ in range(3):
        paths = a @ paths + edge
    return torch.from_numpy(paths)


def adjacency(graph: Graph) -> Any:
    """Return the adjacency matrix ``[targets, sources]`` of a graph, a SciPy matrix of ones."""
    source, target = graph.edge_index.numpy()
    shape = graph.num_targets, graph.num_sources
    matrix = sparse.coo_matrix((np.ones(len(source)), (target, source)), shape).tocsr()
    matrix.data[:] = 1
    return matrix
