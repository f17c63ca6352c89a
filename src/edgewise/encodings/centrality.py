"""Centrality encoding of Graphormer: learned vectors of the node degrees.

Paper: Ying et al., Do Transformers really perform bad for graph representation?, 2021
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.members import SQUARE
from edgewise.graphs import Graph, check_square
from edgewise.graphs.graph import fact_of_graph


@fact_of_graph
def degrees(graph: Graph) -> Tensor:
    """Return the in-degree and the out-degree of each node, ``[N, 2]``.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> encodings.degrees(graphs.edges(torch.tensor([[0, 1], [1, 1]]), 2))
        tensor([[0, 1],
                [2, 1]])
    """
    check_square(graph, SQUARE)
    read_by = torch.bincount(graph.source, minlength=graph.num_sources)
    return torch.stack([graph.in_degree(), read_by], dim=1)


class Centrality(GraphEncoding):
    r"""Add learned vectors of the in-degree and the out-degree, up to m, to node features.

    .. math:: h_i = x_i + z^-_{\min(d^{in}_i, m)} + z^+_{\min(d^{out}_i, m)}

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> chain = graphs.grid(1, 10).bind(10)
        >>> encoding = encodings.Centrality(16)
        >>> encoding(torch.randn(10, 16), encoding.code(chain)).shape
        torch.Size([10, 16])
    """

    def __init__(self, width: int, max_degree: int = 64) -> None:
        super().__init__()
        self.max_degree = max_degree
        self.settings = (max_degree,)
        self.reads, self.read_by = (
            nn.Embedding(max_degree + 1, width),
            nn.Embedding(max_degree + 1, width),
        )

    def code(self, graph: Graph) -> Tensor:
        """Return the in-degree and out-degree of each node, at most ``max_degree``, ``[N, 2]``."""
        return degrees(graph).clamp(max=self.max_degree)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return x ``[N, width]`` plus the vectors of the node degrees ``code``, ``[N, 2]``."""
        check_code(code, x.shape[-2], 2)
        out: Tensor = x + self.reads(code[:, 0]) + self.read_by(code[:, 1])
        return out
