"""Attention pooling: a softmax over the nodes of each graph."""

from __future__ import annotations

import pytest
import torch

from edgewise.layers import AttentionPool


@pytest.mark.parametrize("heads", [1, 3])
def test_each_head_weighs_the_nodes_by_its_gate(heads: int) -> None:
    pool = AttentionPool(6, heads)
    x, sizes = torch.randn(7, 6), [2, 0, 4, 1]
    pooled = pool(x, sizes)
    for row, part in zip(pooled, x.split(sizes), strict=True):
        if not len(part):
            assert (row == 0).all()
            continue
        weight = (part @ pool.gate.weight.T).softmax(0)
        value = pool.value(part).view(len(part), heads, -1)
        torch.testing.assert_close(row, torch.einsum("nh,nhd->hd", weight, value).flatten())


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
    pool = AttentionPool(4, 2)
    pool(torch.randn(6, 4), [4, 2]).square().sum().backward()
    assert all((parameter.grad != 0).any() for parameter in pool.parameters())


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="a divisor of the width 6"):
        AttentionPool(6, 4)
