"""Baselines of link prediction: common neighbours, Adamic–Adar, resource allocation and Katz."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.baselines.candidate import Candidate, Score
from edgewise.batches import Batch
from edgewise.data import Splits
from edgewise.encodings import common_neighbours
from edgewise.errors import require
from edgewise.graphs import Graph
from edgewise.recipes.recipe import Recipe

INDICES = ("common neighbours", "Adamic–Adar", "resource allocation")
KATZ = (1e-4, 1e-3, 1e-2)
"""Weights of a path per edge."""
PAIRS = 2048  # Pairs per product of sparse matrices, to limit memory.


def candidates(_recipe: Recipe, _splits: Splits) -> Iterator[Candidate]:
    """Yield the baselines; they read only the graph of each batch."""
    for column, name in enumerate(INDICES):
        yield Candidate(name, "", partial(_index, column))
    for weight in KATZ:
        yield Candidate("Katz", f"weight {weight:g}", partial(_katz, weight), slow=True)


def _index(column: int) -> Score:
    def score(batch: Batch) -> Tensor:
        pairs, graph = batch.inputs
        return common_neighbours(pairs, graph)[:, column]

    return score


def _katz(weight: float) -> Score:
    def score(batch: Batch) -> Tensor:
        pairs, graph = batch.inputs
        return katz(pairs, graph, weight)

    return score


def katz(pairs: Tensor, graph: Graph, weight: float) -> Tensor:
    r"""Return the Katz index of pairs of nodes, truncated to paths of at most four edges.

    .. math:: \sum_{l=1}^{4} β^l (A^l)_{uv}

    Args:
        pairs: pairs of nodes, ``[2, M]``.
        graph: undirected graph, with each edge in both directions.
        weight: β.
    """
    a = adjacency(graph)
    found = []
    for part in pairs.split(PAIRS, dim=1):
        u, v = (a[side.numpy()] for side in part)
        u_twice, v_twice = u @ a, v @ a
        paths = [
            u.multiply(_indicator(part[1], a.shape[1])).sum(axis=1),
            u.multiply(v).sum(axis=1),
            u_twice.multiply(v).sum(axis=1),
            u_twice.multiply(v_twice).sum(axis=1),
        ]
        found.append(sum(weight ** (k + 1) * np.ravel(count) for k, count in enumerate(paths)))
    return torch.from_numpy(np.concatenate(found)).float()


def _indicator(nodes: Tensor, count: int) -> Any:
    """Return rows with a one at each node, ``[M, count]``."""
    from scipy import sparse

    place = np.arange(len(nodes)), nodes.numpy()
    return sparse.csr_matrix((np.ones(len(nodes)), place), (len(nodes), count))


def adjacency(graph: Graph) -> Any:
    """Return the adjacency matrix as a SciPy CSR matrix of ones."""
    require("scipy", extra="graphs", purpose="sparse matrices of graphs")
    from scipy import sparse

    source, target = graph.edge_index.numpy()
    shape = graph.num_targets, graph.num_sources
    found = sparse.coo_matrix((np.ones(len(source)), (target, source)), shape).tocsr()
    found.data[:] = 1
    return found
