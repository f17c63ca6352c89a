"""Positions of nodes in one sequence or in concatenated sequences, and offsets along edges."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise._utils.ragged import runs_and_positions
from edgewise.graphs import Graph, check_sized
from edgewise.graphs.batch import Sizes


def positions_or_count(x: Tensor, positions: Tensor | None) -> Tensor:
    """Return ``positions``; if they are None, return 0 to T - 1 for x ``[..., T, width]``."""
    return torch.arange(x.shape[-2], device=x.device) if positions is None else positions


def packed_positions(sizes: Sizes) -> Tensor:
    """Return the position of each node in its sequence, for concatenated sequences of these sizes.

    Example:
        >>> from edgewise import encodings
        >>> encodings.packed_positions([2, 3])
        tensor([0, 1, 0, 1, 2])
    """
    return runs_and_positions(torch.as_tensor(sizes, dtype=torch.long))[1]


def offsets(graph: Graph) -> Tensor:
    """Return the offset ``i - j`` from source j to target i of each edge, ``[E]``.

    If a graph has fewer targets than sources, its targets are the last positions.

    Example:
        >>> from edgewise import encodings, graphs
        >>> encodings.offsets(graphs.window(1).bind(3))
        tensor([ 0, -1,  1,  0, -1,  1,  0])
    """
    check_sized(graph)
    ahead = graph.num_sources - graph.num_targets
    return graph.cached("offsets", lambda: graph.target + ahead - graph.source)
