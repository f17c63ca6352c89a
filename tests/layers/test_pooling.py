"""Pooling, and by attention: one graph, packed graphs of different sizes, and none at all."""

from __future__ import annotations

import pytest
import torch

from edgewise import graphs
from edgewise._utils.errors import ArgumentError
from edgewise.layers import AttentionPool, ClassToken, Pool, packed_graph
from tests.errors import refused

SIZES = [3, 0, 1, 4]
BY_HAND = {
    "mean": lambda x: x.mean(0),
    "sum": lambda x: x.sum(0),
    "max": lambda x: x.amax(0),
    "class": lambda x: x[0],
    "last": lambda x: x[-1],
}


@pytest.mark.parametrize("how", BY_HAND)
def test_one_graph_and_batches_of_it(how: str) -> None:
    x = torch.randn(3, 5, 4)
    pooled = Pool(how)(x)
    for member in range(3):
        torch.testing.assert_close(pooled[member], BY_HAND[how](x[member]))


@pytest.mark.parametrize("how", BY_HAND)
def test_packed_graphs_of_different_sizes(how: str) -> None:
    x, sizes = torch.randn(6, 4), [2, 0, 1, 3]
    pooled = Pool(how)(x, sizes)
    for row, part in zip(pooled, x.split(sizes), strict=True):
        torch.testing.assert_close(row, BY_HAND[how](part) if len(part) else torch.zeros(4))


def test_class_token_comes_first_and_is_what_class_pooling_takes() -> None:
    token = ClassToken(4)
    x = torch.randn(2, 5, 4)
    with_token = token(x)
    torch.testing.assert_close(with_token[:, 1:], x)
    torch.testing.assert_close(Pool("class")(with_token), token.token.expand(2, 4))


@pytest.mark.parametrize("how", BY_HAND)
def test_pooling_by_a_graph_of_membership_is_pooling_by_sizes(how: str) -> None:
    x = torch.randn(8, 5)
    assert torch.equal(Pool(how)(x, graphs.membership(SIZES)), Pool(how)(x, SIZES))


def test_a_batch_of_other_nodes_says_so() -> None:
    vector = torch.tensor([0, 0, 1, 1, 1])  # the graph of each node, as PyTorch Geometric has it
    with refused("batch", expected="sum to 5", got="3 nodes", remedy="bincount"):
        Pool()(torch.randn(5, 4), vector)
    torch.testing.assert_close(Pool()(torch.ones(5, 4), vector.bincount()), torch.ones(2, 4))


def test_unknown_pooling_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'mean'"):
        Pool("meann")


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_pooling_by_its_formula(heads: int) -> None:
    pool, x = AttentionPool(6, heads).double(), torch.randn(8, 6).double()
    out = pool(x, SIZES)
    assert torch.equal(pool(x, graphs.membership(SIZES)), out)
    for b, nodes in enumerate(x.split(SIZES)):
        key, value = (f(nodes).view(len(nodes), heads, 6 // heads) for f in (pool.key, pool.value))
        score = torch.einsum("hd,nhd->nh", pool.query, key) / (6 / heads) ** 0.5
        expected = torch.einsum("nh,nhd->hd", score.softmax(0), value).flatten()
        torch.testing.assert_close(out[b], expected, rtol=0, atol=1e-12)


def test_attention_over_one_graph_and_a_batch_of_it() -> None:
    pool, x = AttentionPool(4, 2), torch.randn(3, 5, 4)
    pooled = pool(x)
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


@pytest.mark.parametrize("starts", [[0, 1], [1, 0]])
def test_members_of_a_packed_graph_make_up_all_nodes(starts: list[int]) -> None:
    start = torch.tensor(starts)
    membership = graphs.Intervals(start, start + 2, 4)  # node 1 twice and node 3 never
    edges = graphs.Edges(torch.empty(2, 0, dtype=torch.long), 4, 4)
    with pytest.raises(ArgumentError, match="exactly once"):
        packed_graph(torch.randn(4, 8), edges, membership)
    with pytest.raises(ArgumentError, match="membership graph"):
        packed_graph(torch.randn(4, 8), edges, graphs.Edges(torch.tensor([[0], [0]]), 1, 4))


def test_the_members_that_a_graph_knows_are_those_of_the_sizes() -> None:
    graph = graphs.batch(graphs.complete(), [3, 1])
    assert packed_graph(torch.randn(4, 8), graph, [3, 1]) is graph
    with pytest.raises(ArgumentError, match="no edge between"):
        packed_graph(torch.randn(4, 8), graph, [2, 2])
