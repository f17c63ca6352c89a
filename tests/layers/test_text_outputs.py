"""Scores of tokens, texts and words: packed and padded batches give the same numbers."""

from __future__ import annotations

import pytest
import torch

from edgewise import models
from edgewise.layers import PooledHead, TextScores, TokenHead, Tokens, TokenScores, WordScores

SIZES = torch.tensor([3, 6, 1])
WORDS = torch.tensor([1, 2, 3, 1, 2, 1])  # the words of all three, in tokens
WIDTH = 8


def model(kind: str, name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    options = {} if name == "lstm" else {"heads": 2, "feed_forward": 12}
    trunk = models.TEXT_MODELS[name](11, width=WIDTH, depth=2, dropout=0.0, **options)
    if kind == "tokens":
        made = TokenScores(trunk)
    elif kind == "words":
        made = WordScores(trunk, TokenHead(WIDTH, 5, dropout=0.0))
    else:
        made = TextScores(trunk, PooledHead(WIDTH, 5, pool=kind, dropout=0.0))
    return made.double()


def inputs(kind: str, tokens: Tokens) -> tuple[object, ...]:
    if kind == "words":
        return tokens, WORDS
    return (tokens, torch.tensor([0, 4, 8])) if kind == "tokens" else (tokens,)


@pytest.mark.parametrize("name", ["bert", "gpt", "llama", "lstm"])
@pytest.mark.parametrize("kind", ["tokens", "words", "mean", "class", "max"])
def test_packed_and_padded_give_the_same_outputs_and_gradients(name: str, kind: str) -> None:
    torch.manual_seed(1)
    packed = Tokens(torch.randint(1, 11, (int(SIZES.sum()),)), SIZES)
    padded = packed.padded(0)
    assert padded.ids.shape == (3, 6)
    results = []
    for tokens in (packed, padded):
        net = model(kind, name)
        out = net(*inputs(kind, tokens))
        out.square().sum().backward()
        results.append((out, {n: p.grad for n, p in net.named_parameters()}))
    (one, grads), (other, other_grads) = results
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    for weight, grad in grads.items():
        assert grad is not None, f"{weight} is of no use"
        torch.testing.assert_close(grad, other_grads[weight], rtol=0, atol=1e-11)


def test_texts_of_one_length_need_no_mask() -> None:
    tokens = Tokens(torch.arange(6), torch.tensor([3, 3])).padded(0)
    assert tokens.mask is None
    net = model("mean", "bert")
    torch.testing.assert_close(net(tokens), net(Tokens(torch.arange(6), torch.tensor([3, 3]))))


def test_places_choose_what_is_scored() -> None:
    net = model("tokens", "gpt")
    tokens = Tokens(torch.arange(10).view(2, 5))
    every = net(tokens)
    assert every.shape == (10, 11)
    places = torch.tensor([7, 2])
    torch.testing.assert_close(net(tokens, places), every[places])
