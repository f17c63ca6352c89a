"""Measures of the centrality of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgewise._utils.errors import require
from edgewise.graphs import Graph

MAX_PATH_STEPS = 1_000_000_000
"""Maximum product of the numbers of sources and directed edges for betweenness, which then takes
seconds to a minute. Above it, sources are sampled."""
MAX_SEARCH = 1_000_000
"""Maximum number of nodes times sources in one search; more sources are searched in groups."""


def centralities(graph: Graph, *, seed: int = 0) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Compute degree, closeness, betweenness, eigenvector centrality and PageRank.

    Edges count in both directions; self-loops are ignored. ``seed`` samples the sources for
    betweenness in large graphs.

    Returns:
        The values ``[N]`` by name, and notes on those that are estimated.

    Example:
        >>> from edgewise import explain, graphs
        >>> values, notes = explain.centralities(graphs.grid(1, 3).bind(3))
        >>> sorted(values)
        ['PageRank', 'betweenness', 'closeness', 'degree', 'eigenvector']
        >>> values["degree"]
        tensor([1., 2., 1.], dtype=torch.float64)
    """
    require("networkx", extra="graphs", purpose="measures of centrality")
    require("scipy", extra="graphs", purpose="measures of centrality")
    import networkx
    from scipy import sparse
    from scipy.sparse.linalg import eigsh

    count = graph.num_targets
    index = graph.without_self_loops().edge_index
    index = torch.cat([index, index.flip(0)], dim=1).unique(dim=1).numpy()
    matrix = sparse.csr_matrix((np.ones(index.shape[1]), tuple(index)), (count, count))
    network = networkx.from_scipy_sparse_array(matrix)
    sources = np.arange(count)
    max_sources = max(2, MAX_PATH_STEPS // max(index.shape[1], 1))
    notes = {}
    if count > max_sources:
        sources = np.random.default_rng(seed).permutation(sources)[:max_sources]
        notes["betweenness"] = f"estimated from {max_sources:,} of {count:,} sources"
    closeness, betweenness = _path_centralities(matrix, sources)
    eigenvector = np.zeros(count)  # of a graph without edges, which ARPACK refuses
    if matrix.nnz:
        eigenvector = np.abs(eigsh(matrix, k=1, which="LA", v0=np.ones(count))[1][:, 0])
    values = {
        "degree": np.asarray(matrix.sum(1)).reshape(-1),
        "closeness": closeness,
        "betweenness": betweenness,
        "eigenvector": eigenvector,
        "PageRank": np.array(list(networkx.pagerank(network).values())),
    }
    return {name: torch.as_tensor(value).double() for name, value in values.items()}, notes


def _path_centralities(matrix: Any, sources: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Compute closeness, and betweenness from ``sources`` scaled to all nodes (Brandes, 2001)."""
    count = matrix.shape[0]
    at_once = MAX_SEARCH // max(count, 1)
    closeness, through = np.zeros(count), np.zeros(count)
    others = np.setdiff1d(np.arange(count), sources)
    searches = [(nodes, True) for nodes in _chunks(sources, at_once)]
    searches += [(nodes, False) for nodes in _chunks(others, at_once)]
    for nodes, is_source in searches:
        column = np.arange(len(nodes))
        paths, steps = np.zeros((count, len(nodes))), np.full((count, len(nodes)), -1, np.int32)
        paths[nodes, column], steps[nodes, column] = 1, 0
        new, last = paths, 0
        while True:
            new = (matrix @ new) * (steps < 0)
            if not new.any():
                break
            last += 1
            steps[new > 0] = last
            paths += new
        reached = (steps > 0).sum(0)
        near = reached / np.maximum((steps * (steps > 0)).sum(0), 1)
        closeness[nodes] = near * reached / max(count - 1, 1)
        depends = np.zeros_like(paths)
        for step in range(last, 1, -1) if is_source else ():
            flow = np.where(steps == step, (1 + depends) / np.maximum(paths, 1), 0)
            depends += (matrix @ flow) * paths * (steps == step - 1)
        through += depends.sum(1)
    return closeness, through * count / max(len(sources), 1) / max((count - 1) * (count - 2), 1)


def _chunks(nodes: NDArray[Any], size: int) -> list[NDArray[Any]]:
    size = max(1, min(512, size))
    return [nodes[start : start + size] for start in range(0, len(nodes), size)]
