r"""Three indices of the common neighbours of two nodes: count, Adamic–Adar, resource allocation.

For a pair (u, v) with the set C of common neighbours, and with node degrees d, the indices are

.. math:: |C|, \qquad \sum_{w \in C} \frac{1}{\log d_w}, \qquad \sum_{w \in C} \frac{1}{d_w}

Papers: Adamic and Adar, Friends and neighbors on the web, 2003; Zhou et al., Predicting missing
links via local information, 2009.
"""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.graphs import Graph

CHUNK = 1 << 22  # Maximum number of neighbours that are looked up at once, to limit memory.


def common_neighbours(pairs: Tensor, graph: Graph) -> Tensor:
    """Return three indices of the common neighbours of each pair of nodes, ``[M, 3]``.

    The columns are their number, the Adamic–Adar index (sum of 1 / log degree) and the resource
    allocation index (sum of 1 / degree). ``graph`` has each edge in both directions; of a sample,
    all edges into the nodes of the pairs, and degrees are those in the whole graph.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> ring = graphs.grid(2, 2).bind(4)
        >>> encodings.common_neighbours(torch.tensor([[0], [3]]), ring)  # two, of degree 2
        tensor([[2.0000, 2.8854, 1.0000]])
    """
    source, target = graph.edge_index
    nodes = graph.num_targets
    keys = (target * nodes + source).unique()
    neighbour = keys % nodes
    degree = torch.bincount(keys // nodes, minlength=nodes)
    first = starts(degree)
    whole = degree if graph.whole is None else graph.whole.degree
    # 1 / log 1 is infinite, but a common neighbour of two nodes has at least two neighbours.
    adamic, allocation = 1 / whole.clamp(min=2).log(), 1 / whole.clamp(min=1)
    weight = torch.stack([torch.ones_like(adamic), adamic, allocation], dim=1)
    # The neighbours of the node with the lower degree are looked up in the list of the other node.
    swap = degree[pairs[0]] > degree[pairs[1]]
    low, high = pairs[0].where(~swap, pairs[1]), pairs[1].where(~swap, pairs[0])
    out = weight.new_zeros(pairs.shape[1], 3)
    chunk = degree[low].cumsum(0) // CHUNK
    sizes = chunk.unique_consecutive(return_counts=True)[1].tolist()
    for rows in torch.arange(len(low), device=keys.device).split(sizes) if len(keys) else ():
        run, position = runs_and_positions(degree[low[rows]])
        middle = neighbour[first[low[rows[run]]] + position]
        key = high[rows[run]] * nodes + middle
        index = torch.searchsorted(keys, key).clamp_(max=len(keys) - 1)
        is_common = keys[index] == key
        out.index_add_(0, rows[run[is_common]], weight[middle[is_common]])
    return out
