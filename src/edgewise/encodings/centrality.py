"""How many neighbours a node has: Graphormer's centrality.

Paper: Ying et al., Do Transformers really perform bad for graph representation?, 2021
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.encodings.code import check_code
from edgewise.encodings.members import SQUARE
from edgewise.graphs import Graph, check_square


def degrees(graph: Graph) -> Tensor:
    """``[N, 2]``: how many edges each node reads by, and how many it is read by."""
    check_square(graph, SQUARE)
    read_by = torch.bincount(graph.source, minlength=graph.num_sources)
    return torch.stack([graph.in_degree(), read_by], dim=1)


class Centrality(nn.Module):
    """Add a learned vector for each of both degrees to the features of nodes.

    Args:
        width: of the features.
        max_degree: degrees beyond it count as it.

    """

    compares_graphs = False
    of_pairs = False

    def __init__(self, width: int, max_degree: int = 64) -> None:
        super().__init__()
        self.max_degree = max_degree
        self.reads, self.read_by = (
            nn.Embedding(max_degree + 1, width),
            nn.Embedding(max_degree + 1, width),
        )

    @property
    def settings(self) -> tuple[int, ...]:
        """What the code depends on besides the graph."""
        return (self.max_degree,)

    def code(self, graph: Graph) -> Tensor:
        """``[N, 2]``, what :meth:`forward` is given."""
        return degrees(graph).clamp(max=self.max_degree)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """``[N, width]`` from x of that shape and degrees ``[N, 2]``."""
        check_code(code, x.shape[-2], 2)
        out: Tensor = x + self.reads(code[:, 0]) + self.read_by(code[:, 1])
        return out
