"""Attention pooling: a softmax over the nodes of each graph."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise.layers import AttentionPool

SIZES = [3, 0, 1, 4]


@pytest.mark.parametrize("heads", [1, 2])
def test_by_its_formula(heads: int) -> None:
    pool, x = AttentionPool(6, heads).double(), torch.randn(8, 6).double()
    out = pool(x, SIZES)
    assert torch.equal(pool(x, graphs.membership(SIZES)), out)
    for b, nodes in enumerate(x.split(SIZES)):
        key, value = (f(nodes).view(len(nodes), heads, 6 // heads) for f in (pool.key, pool.value))
        score = torch.einsum("hd,nhd->nh", pool.query, key) / (6 / heads) ** 0.5
        expected = torch.einsum("nh,nhd->hd", score.softmax(0), value).flatten()
        torch.testing.assert_close(out[b], expected, rtol=0, atol=1e-12)


def test_one_graph_and_a_batch_of_it() -> None:
    pool, x = AttentionPool(4, 2), torch.randn(3, 5, 4)
    pooled = pool(x)
    assert pooled.shape == (3, 4)
    torch.testing.assert_close(pooled[1], pool(x[1]))
    torch.testing.assert_close(pool(x, [5])[:, 0], pooled)


def test_the_order_of_the_nodes_does_not_matter() -> None:
    pool, x = AttentionPool(4), torch.randn(6, 4)
    torch.testing.assert_close(pool(x[torch.randperm(6)]), pool(x))


def test_every_weight_learns() -> None:
    pool = AttentionPool(4, 2).double()  # so that rounding is far below the bound
    pool(torch.randn(6, 4, dtype=torch.double), [4, 2]).square().sum().backward()
    still = {name for name, p in pool.named_parameters() if not (p.grad.abs() > 1e-6).any()}
    assert still == {"key.bias"}  # it shifts all scores of a graph alike


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="a divisor of the width 6"):
        AttentionPool(6, 4)
