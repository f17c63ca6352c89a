"""GRAND against its formula, and what its views share and do not."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.models import grand


def a_graph() -> graphs.Graph:
    pairs = torch.tensor([[0, 1, 2, 3, 1], [1, 2, 3, 4, 4]])
    return graphs.edges(torch.cat([pairs, pairs.flip(0)], dim=1), 6)


def test_diffusion_before_the_first_map_is_the_same_as_after_it():
    model = grand(5, 3, width=4, hops=3, drop_node=0.5).double().eval()
    x, graph = torch.randn(6, 5, dtype=torch.double), a_graph()
    matrix = graph.dense().double() + torch.eye(6, dtype=torch.double)
    scale = matrix.sum(1).rsqrt()
    matrix = scale[:, None] * matrix * scale
    mean = sum(torch.linalg.matrix_power(matrix, k) for k in range(4)) / 4
    hidden = model.first(mean @ x * 0.5) + model.bias  # nodes are kept half the time
    expected = model.last(hidden.relu())
    # The bias is added after the diffusion, and is not halved.
    torch.testing.assert_close(model(x, graph), expected, rtol=0, atol=1e-12)


def test_views_leave_out_different_nodes_and_agree_without_dropout():
    x, graph = torch.randn(6, 5), a_graph()
    out = grand(5, 3, views=3, dropout=0.0)(x, graph)
    assert out.shape == (6, 3, 3)
    assert not torch.equal(out[:, 0], out[:, 1])
    same = grand(5, 3, views=3, drop_node=0.0, dropout=0.0)
    out = same(x, graph)
    assert torch.equal(out[:, 0], out[:, 2])
    torch.testing.assert_close(out[:, 0], same.eval()(x, graph))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_words_give_the_same_as_dense_ones():
    model = grand(5, 3).eval()
    x, graph = torch.rand(6, 5).round(), a_graph()
    torch.testing.assert_close(model(x.to_sparse_csr(), graph), model(x, graph))


def test_receptive_field_is_the_number_of_hops():
    path = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    x = torch.randn(6, 5, requires_grad=True)
    grand(5, 3, hops=3).eval()(x, graphs.edges(path, 6))[5].sum().backward()
    assert (x.grad[:2] == 0).all()
    assert (x.grad[2] != 0).any()
