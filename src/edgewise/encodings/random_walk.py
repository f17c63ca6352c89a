r"""Random-walk probabilities: how likely a walk of t steps from a node is back where it began.

.. math:: \mathrm{code}_i = (M_{ii}, (M^2)_{ii}, …, (M^K)_{ii}), \qquad M = D^{-1} A

It has no sign and no order to be unsure of, and tells rings from chains: in a ring of six the sixth
step adds a way back.

Paper: Dwivedi et al., Graph neural networks with learnable structural and positional
representations, 2022
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise.arguments import check_least
from edgewise.encodings.code import check_code
from edgewise.encodings.members import SQUARE, members_by_size
from edgewise.graphs import Graph, check_square


def random_walk_probabilities(graph: Graph, steps: int) -> Tensor:
    """``[N, steps]``: the probability to be back after 1, 2, … steps along what each node reads.

    A walk ends at a node that reads nothing. Edges may have a direction, and self-loops count.

    Args:
        graph: each member of a packed batch is walked by itself.
        steps: K.

    Raises:
        ArgumentError: fewer steps than 1, or a member of more than 8,192 nodes.

    """
    check_square(graph, SQUARE)
    check_least("steps", steps, 1, "choose for example 20")
    code = torch.zeros(graph.num_targets, steps, dtype=torch.double, device=graph.device)
    for members in members_by_size(graph):
        step = members.walk()
        power = step
        for t in range(steps):
            code[members.nodes, t] = power.diagonal(dim1=1, dim2=2)
            if t + 1 < steps:
                power = power @ step
    return code.float()


class RandomWalk(nn.Module):
    """Add projected return probabilities to the features of nodes.

    Args:
        width: of the features.
        steps: of the walk.

    """

    compares_graphs = False
    of_pairs = False

    def __init__(self, width: int, steps: int = 20) -> None:
        super().__init__()
        self.steps = steps
        self.norm = nn.BatchNorm1d(steps)  # late steps differ by little
        self.project = nn.Linear(steps, width, bias=False)

    @property
    def settings(self) -> tuple[int, ...]:
        """What the code depends on besides the graph."""
        return (self.steps,)

    def code(self, graph: Graph) -> Tensor:
        """``[N, steps]``, what :meth:`forward` is given: to be computed once for a data set."""
        return random_walk_probabilities(graph, self.steps)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """``[N, width]`` from x of that shape and probabilities ``[N, steps]``."""
        check_code(code, x.shape[-2], self.steps)
        code = code.to(x)
        if self.training and len(code) < 2:  # a single node has no variance
            norm = self.norm
            code = F.batch_norm(
                code, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            )
        else:
            code = self.norm(code)
        out: Tensor = x + self.project(code)
        return out
