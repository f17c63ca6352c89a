"""Pooling: one graph, packed graphs of different sizes, and none at all."""

from __future__ import annotations

import pytest
import torch

from edgewise.layers import ClassToken, Pool

BY_HAND = {
    "mean": lambda x: x.mean(0),
    "sum": lambda x: x.sum(0),
    "max": lambda x: x.amax(0),
    "class": lambda x: x[0],
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


def test_unknown_pooling_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'mean'"):
        Pool("meann")
