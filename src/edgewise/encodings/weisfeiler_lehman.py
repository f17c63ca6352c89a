"""Weisfeiler–Lehman colours, an upper bound on what message-passing networks distinguish.

In each round, the new colour of a node represents its colour and the multiset of its neighbours'
colours. Nodes of equal colour after k rounds have equal states after k message-passing layers.

Papers: Weisfeiler and Lehman, 1968; Xu et al., How powerful are graph neural networks?, 2019; Zhang
et al., Graph-BERT, 2020 (colours as positions).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import starts
from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.members import SQUARE
from edgewise.graphs import Graph, check_square
from edgewise.graphs.graph import fact_of_graph


@fact_of_graph
def wl_colors(graph: Graph, rounds: int, initial: Tensor | None = None) -> Tensor:
    """Return the Weisfeiler–Lehman colour of each node as an integer, ``[N]``.

    Colours are exact, and comparable between the graphs of one batch. ``initial`` colours ``[N]``,
    such as atomic numbers, are equal by default. Refinement stops early if no colour splits.

    Raises:
        ArgumentError: the length of ``initial`` is not N.

    Example:
        >>> from edgewise import encodings, graphs
        >>> path = graphs.grid(1, 3).bind(3)
        >>> encodings.wl_colors(path, rounds=1)
        tensor([0, 1, 0])
    """
    check_square(graph, SQUARE)
    check_range("rounds", rounds, "choose for example 3", least=0)
    n = graph.num_targets
    colors = torch.zeros(n, dtype=torch.long, device=graph.device) if initial is None else initial
    if colors.shape != (n,):
        raise ArgumentError(
            "initial",
            expected=f"integers of shape [{n}], one per node",
            got=f"shape {list(colors.shape)}",
            remedy="give one integer for each node",
        )
    colors = colors.unique(return_inverse=True)[1]
    order = graph.target.argsort(stable=True)
    source, target, degree = graph.source[order], graph.target[order], graph.in_degree()
    first, n_colors = starts(degree), int(colors.max()) + 1 if n else 0
    for _ in range(rounds):
        # Sort the colours of the neighbours of each target.
        by_color = (target * max(n_colors, 1) + colors[source]).argsort()
        neighbour_colors = colors[source[by_color]]
        refined, n_refined = torch.empty_like(colors), 0
        # Compare all nodes of the same degree at once, as rows of equal length.
        for d in degree.unique().tolist():
            nodes = (degree == d).nonzero()[:, 0]
            index = first[nodes, None] + torch.arange(d, device=graph.device)
            rows = torch.cat([colors[nodes, None], neighbour_colors[index]], dim=1)
            distinct, number = rows.unique(dim=0, return_inverse=True)
            refined[nodes] = n_refined + number
            n_refined += len(distinct)
        if n_refined == n_colors:
            break
        colors, n_colors = refined, n_refined
    return colors


class WeisfeilerLehman(GraphEncoding):
    r"""Add a learned vector for each colour, :math:`x_i + T[\mathrm{colour}(i)]` (Graph-BERT).

    Args:
        colors: number of vectors; all higher colours share the last vector.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> chain = graphs.grid(1, 10).bind(10)
        >>> encoding = encodings.WeisfeilerLehman(16)
        >>> encoding(torch.randn(10, 16), encoding.code(chain)).shape
        torch.Size([10, 16])
    """

    compares_graphs = True  # Codes of graphs are comparable only if computed in one call.

    def __init__(self, width: int, colors: int = 256, rounds: int = 2) -> None:
        super().__init__()
        self.colors, self.rounds = colors, rounds
        self.settings = (rounds,)
        self.table = nn.Embedding(colors, width)

    def code(self, graph: Graph) -> Tensor:
        """Return the colour of each node, ``[N]``; only colours of one call are comparable."""
        return wl_colors(graph, self.rounds)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return x ``[N, width]`` plus the learned vector of the colour ``code``, ``[N]``."""
        check_code(code, x.shape[-2])
        out: Tensor = x + self.table(code.clamp(max=self.colors - 1))
        return out
