"""Heads for fine-tuning: from states to a label of the text, or of every token."""

from __future__ import annotations

import pytest
import torch

from edgewise.layers import LanguageHead, PooledHead, TokenHead


def test_the_pooled_head_is_berts() -> None:
    torch.manual_seed(0)
    head, states = PooledHead(6, 3).eval(), torch.randn(2, 5, 6)
    torch.testing.assert_close(head(states), head.output(head.dense(states[:, 0]).tanh()))
    mean = PooledHead(6, 3, pool="mean").eval()
    torch.testing.assert_close(mean(states), mean.output(mean.dense(states.mean(1)).tanh()))


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_a_packed_batch_is_pooled_text_by_text(pool: str) -> None:
    torch.manual_seed(0)
    head, states = PooledHead(6, 3, pool=pool).eval(), torch.randn(7, 6)
    alone = torch.stack([head(part) for part in states.split([4, 1, 2])])
    torch.testing.assert_close(head(states, sizes=[4, 1, 2]), alone)


def test_the_token_head_is_a_map_of_every_state() -> None:
    torch.manual_seed(0)
    head, states = TokenHead(6, 3).eval(), torch.randn(2, 5, 6)
    torch.testing.assert_close(head(states), head[1](states))


def test_a_language_head_is_tied_or_not() -> None:
    torch.manual_seed(0)
    states, tokens = torch.randn(4, 6), torch.randn(9, 6)
    tied, own = LanguageHead(9, 6, bias=True, scale=0.5), LanguageHead(9, 6, tied=False)
    tied.bias.data.normal_()
    torch.testing.assert_close(tied(states, tokens), 0.5 * states @ tokens.T + tied.bias)
    torch.testing.assert_close(own(states, tokens), states @ own.weight.T)
    assert list(own.state_dict()) == ["weight"]
    assert list(tied.state_dict()) == ["bias"]
