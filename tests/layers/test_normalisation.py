"""Symmetric normalisation is the matrix product of its definition."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.layers import symmetric_weight


@pytest.mark.parametrize("weighted", [False, True])
def test_symmetric_weight_is_the_matrix_product(weighted: bool) -> None:
    torch.manual_seed(0)
    pairs = torch.tensor([[1, 2, 0, 3, 3, 0, 0], [0, 0, 1, 1, 1, 2, 3]])  # one edge twice; 4 alone
    graph = graphs.edges(pairs, 5)
    weight = torch.rand(7, dtype=torch.double) + 0.1 if weighted else None
    ones = torch.ones(7, dtype=torch.double)
    matrix = torch.zeros(5, 5, dtype=torch.double)
    matrix.index_put_((pairs[1], pairs[0]), ones if weight is None else weight, accumulate=True)
    degree = matrix.sum(1)
    scale = torch.where(degree > 0, degree.pow(-0.5), 0.0).diag()
    ours = torch.zeros_like(matrix)
    ours.index_put_((pairs[1], pairs[0]), symmetric_weight(graph, weight), accumulate=True)
    torch.testing.assert_close(ours, scale @ matrix @ scale, rtol=0, atol=1e-15)


def test_edges_from_a_node_that_reads_nothing_weigh_nothing() -> None:
    graph = graphs.edges(torch.tensor([[0, 1], [1, 2]]), 3)
    assert symmetric_weight(graph).tolist() == [0, 1]
    assert symmetric_weight(graph) is symmetric_weight(graph)
