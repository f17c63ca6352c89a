"""Positions of nodes, alone and in packed batches, and offsets along edges."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.graphs import Graph, check_sized
from edgewise.graphs.batch import Sizes
from edgewise.ragged import runs_and_positions


def positions_or_count(x: Tensor, positions: Tensor | None) -> Tensor:
    """The positions given, or 0, 1, ... along the nodes of x ``[..., T, width]``."""
    return torch.arange(x.shape[-2], device=x.device) if positions is None else positions


def packed_positions(sizes: Sizes) -> Tensor:
    """Positions in a packed batch: 0, 1, ... anew for every member, ``[sum of sizes]``."""
    return runs_and_positions(torch.as_tensor(sizes, dtype=torch.long))[1]


def offsets(graph: Graph) -> Tensor:
    """How far behind its target each source is, ``i - j``, ``[E]``.

    Where there are fewer targets than sources, the targets are the last of the same positions.
    In a packed batch the members are as far apart from each other as need be: no edge joins them.
    """
    check_sized(graph)
    ahead = graph.num_sources - graph.num_targets
    return graph.cached("offsets", lambda: graph.target + ahead - graph.source)
