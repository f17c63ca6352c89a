"""Weisfeiler–Lehman colours: what a message-passing network can tell apart at best.

In each round the colour of a node becomes one for its own colour and those of its neighbours, how
often each. After k rounds two nodes have one colour where no k layers can tell them apart.

Papers: Weisfeiler and Lehman, 1968; Xu et al., How powerful are graph neural networks?, 2019; Zhang
et al., Graph-BERT, 2020 (colours as positions).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.arguments import check_from_zero
from edgewise.encodings.code import check_code
from edgewise.encodings.members import SQUARE
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, check_square
from edgewise.ragged import starts


def wl_colors(graph: Graph, rounds: int, initial: Tensor | None = None) -> Tensor:
    """``[N]``, a number for each colour, the same over all members of a packed batch.

    Exact: colours are compared as they are, and not by hashes that may collide. Rounds that split
    no colour any more are left out.

    Args:
        graph: any, of as many targets as sources; a node's neighbours are those that it reads.
        rounds: how many at most.
        initial: ``[N]`` whole numbers to begin with, such as the elements of atoms; one colour for
            all where it is not given.

    Raises:
        ArgumentError: ``initial`` has another length.

    """
    check_square(graph, SQUARE)
    check_from_zero("rounds", rounds, "choose for example 3")
    n = graph.num_targets
    colors = torch.zeros(n, dtype=torch.long, device=graph.device) if initial is None else initial
    if colors.shape != (n,):
        raise ArgumentError(
            "initial",
            expected=f"a whole number for each of {n} nodes",
            got=f"shape {list(colors.shape)}",
            remedy="give one for each node",
        )
    colors = colors.unique(return_inverse=True)[1]
    order = graph.target.argsort(stable=True)
    source, target, degree = graph.source[order], graph.target[order], graph.in_degree()
    first, n_colors = starts(degree), int(colors.max()) + 1 if n else 0
    for _ in range(rounds):
        # Neighbours' colours in order: sorted by color within each target.
        by_color = (target * max(n_colors, 1) + colors[source]).argsort()
        read = colors[source[by_color]]
        found, used = torch.empty_like(colors), 0
        for d in degree.unique().tolist():  # rows of one length are compared at once
            nodes = (degree == d).nonzero()[:, 0]
            place = first[nodes, None] + torch.arange(d, device=graph.device)
            rows = torch.cat([colors[nodes, None], read[place]], dim=1)
            distinct, number = rows.unique(dim=0, return_inverse=True)
            found[nodes] = used + number
            used += len(distinct)
        if used == n_colors:
            break
        colors, n_colors = found, used
    return colors


class WeisfeilerLehman(nn.Module):
    """Add a learned vector for each colour to the features of nodes (Graph-BERT's first code).

    Args:
        width: of the features.
        colors: how many are known; others, in graphs that were not trained on, share the last.
        rounds: of the colouring.

    """

    of_pairs = False
    compares_graphs = True  # colours are numbered over all of them

    def __init__(self, width: int, colors: int = 256, rounds: int = 2) -> None:
        super().__init__()
        self.colors, self.rounds = colors, rounds
        self.table = nn.Embedding(colors, width)

    @property
    def settings(self) -> tuple[int, ...]:
        """What the code depends on besides the graph."""
        return (self.rounds,)

    def code(self, graph: Graph) -> Tensor:
        """``[N]``; the colours of all graphs that are compared have to be computed at once."""
        return wl_colors(graph, self.rounds)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """``[N, width]`` from x of that shape and colours ``[N]``."""
        check_code(code, x.shape[-2])
        out: Tensor = x + self.table(code.clamp(max=self.colors - 1))
        return out
