r"""Random-walk encodings: probabilities that a walk is back at its node, or at another node.

.. math::
    \mathrm{code}_i = (M_{ii}, (M^2)_{ii}, …, (M^K)_{ii}), \qquad
    \mathrm{code}_{ij} = (I_{ij}, M_{ij}, …, (M^{K-1})_{ij}), \qquad M = D^{-1} A

The codes have no sign ambiguity and do not depend on the node order. Those of nodes distinguish
rings from chains: in a ring of six nodes, a walk of six steps can return around the ring. Those of
pairs determine the distances of all pairs below K.

Papers: Dwivedi et al., Graph neural networks with learnable structural and positional
representations, 2022; Ma et al., Graph inductive biases in Transformers without message passing
(GRIT), 2023 (of pairs)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, repeat

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.members import SQUARE, member_sizes, members_by_size, pair_index
from edgewise.graphs import Graph, check_square
from edgewise.graphs.graph import fact_of_graph


@fact_of_graph
def random_walk_probabilities(graph: Graph, steps: int) -> Tensor:
    """Return the probabilities ``[N, steps]`` that a random walk is back after 1, 2, … steps.

    The walk steps from a target to one of its sources, and ends at a node without sources. It may
    use self-loops.

    Raises:
        ArgumentError: ``steps`` is below 1, or a graph of the batch has more than 8,192 nodes.

    Example:
        >>> from edgewise import encodings, graphs
        >>> ring = graphs.grid(2, 2).bind(4)
        >>> encodings.random_walk_probabilities(ring, 4)
        tensor([[0.0000, 0.5000, 0.0000, 0.5000],
                [0.0000, 0.5000, 0.0000, 0.5000],
                [0.0000, 0.5000, 0.0000, 0.5000],
                [0.0000, 0.5000, 0.0000, 0.5000]])
    """
    check_square(graph, SQUARE)
    check_range("steps", steps, "choose for example 20", least=1)
    code = torch.zeros(graph.num_targets, steps, dtype=torch.double, device=graph.device)
    for members in members_by_size(graph):
        step = members.walk()
        for t, power in enumerate(_powers(step, step, steps)):
            code[members.nodes, t] = power.diagonal(dim1=1, dim2=2)
    return code.float()


@fact_of_graph
def relative_random_walk_probabilities(graph: Graph, steps: int) -> Tensor:
    """Return the probabilities of all pairs ``[P, steps]`` after 0, 1, … steps of a random walk.

    Pairs of nodes are those of ``graphs.complete()`` for each graph of a batch, in its edge order:
    the walk begins at the target and ends at the source. See :func:`random_walk_probabilities`.

    Raises:
        ArgumentError: ``steps`` is below 1, or a graph of the batch has more than 8,192 nodes.

    Example:
        >>> from edgewise import encodings, graphs
        >>> path = graphs.grid(1, 2).bind(2)
        >>> encodings.relative_random_walk_probabilities(path, 3)
        tensor([[1., 0., 1.],
                [0., 1., 0.],
                [0., 1., 0.],
                [1., 0., 1.]])
    """
    check_range("steps", steps, "choose for example 21", least=1)
    count = int(member_sizes(graph).square().sum())
    code = torch.zeros(count, steps, dtype=torch.double, device=graph.device)
    for members in members_by_size(graph):
        step = members.walk()
        start = torch.eye(step.shape[1], dtype=step.dtype, device=step.device).expand_as(step)
        pairs = pair_index(graph, members)
        for t, power in enumerate(_powers(start, step, steps)):
            code[pairs, t] = power.flatten(1)
    return code.float()


def _powers(first: Tensor, step: Tensor, count: int) -> Iterator[Tensor]:
    """Yield ``count`` matrices: the first, and each multiplied by ``step``."""
    return accumulate(repeat(step, count - 1), torch.matmul, initial=first)


class RandomWalk(GraphEncoding):
    r"""Add a map of the batch-normed return probabilities of random walks, :math:`x_i + W c_i`.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> chain = graphs.grid(1, 10).bind(10)
        >>> encoding = encodings.RandomWalk(16)
        >>> encoding(torch.randn(10, 16), encoding.code(chain)).shape
        torch.Size([10, 16])
    """

    def __init__(self, width: int, steps: int = 20) -> None:
        super().__init__()
        self.steps = steps
        self.settings = (steps,)
        # Return probabilities after many steps vary little between nodes, so normalise them.
        self.norm = nn.BatchNorm1d(steps)
        self.project = nn.Linear(steps, width, bias=False)

    def code(self, graph: Graph) -> Tensor:
        """Return the return probabilities ``[N, steps]``; compute them once per data set."""
        return random_walk_probabilities(graph, self.steps)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return x ``[N, width]`` plus the linear map of the probabilities ``code [N, steps]``."""
        check_code(code, x.shape[-2], self.steps)
        code = code.to(x)
        # Batch norm needs at least two nodes, because the variance of a single node is undefined.
        if self.training and len(code) < 2:
            norm = self.norm
            code = F.batch_norm(
                code, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
            )
        else:
            code = self.norm(code)
        out: Tensor = x + self.project(code)
        return out
