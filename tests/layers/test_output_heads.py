"""Output heads by their formulas; packed and padded batches give the same numbers."""

from __future__ import annotations

import pytest
import torch

from edgewise import models
from edgewise.layers import (
    ClassificationHead,
    LanguageModel,
    LanguageModelHead,
    TextClassifier,
    TokenClassificationHead,
    TokenClassifier,
    Tokens,
)

SIZES = torch.tensor([3, 6, 1])
WORDS = torch.tensor([1, 2, 3, 1, 2, 1])  # the words of all three, in tokens
WIDTH = 8


def model(kind: str, name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    options = {} if name == "lstm" else {"heads": 2, "ffn_dim": 12}
    trunk = models.TEXT_MODELS[name](11, width=WIDTH, depth=2, dropout=0.0, **options)
    if kind == "tokens":
        made = LanguageModel(trunk)
    elif kind == "words":
        made = TokenClassifier(trunk, TokenClassificationHead(WIDTH, 5, dropout=0.0))
    else:
        made = TextClassifier(trunk, ClassificationHead(WIDTH, 5, pool=kind, dropout=0.0))
    return made.double()


def inputs(kind: str, tokens: Tokens) -> tuple[object, ...]:
    if kind == "words":
        return tokens, WORDS
    return (tokens, torch.tensor([0, 4, 8])) if kind == "tokens" else (tokens,)


@pytest.mark.slow(every=4)
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


def test_the_classification_head_is_berts() -> None:
    torch.manual_seed(0)
    head, states = ClassificationHead(6, 3).eval(), torch.randn(2, 5, 6)
    torch.testing.assert_close(head(states), head.output(head.dense(states[:, 0]).tanh()))
    mean = ClassificationHead(6, 3, pool="mean").eval()
    torch.testing.assert_close(mean(states), mean.output(mean.dense(states.mean(1)).tanh()))


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_a_packed_batch_is_pooled_text_by_text(pool: str) -> None:
    torch.manual_seed(0)
    head, states = ClassificationHead(6, 3, pool=pool).eval(), torch.randn(7, 6)
    alone = torch.stack([head(part) for part in states.split([4, 1, 2])])
    torch.testing.assert_close(head(states, sizes=[4, 1, 2]), alone)


def test_the_token_classification_head_is_a_map_of_every_state() -> None:
    torch.manual_seed(0)
    head, states = TokenClassificationHead(6, 3).eval(), torch.randn(2, 5, 6)
    torch.testing.assert_close(head(states), head[1](states))


def test_a_language_model_head_is_tied_or_not() -> None:
    torch.manual_seed(0)
    states, tokens = torch.randn(4, 6), torch.randn(9, 6)
    tied, own = LanguageModelHead(9, 6, bias=True, scale=0.5), LanguageModelHead(9, 6, tied=False)
    tied.bias.data.normal_()
    torch.testing.assert_close(tied(states, tokens), 0.5 * states @ tokens.T + tied.bias)
    torch.testing.assert_close(own(states, tokens), states @ own.weight.T)
    assert list(own.state_dict()) == ["weight"]
    assert list(tied.state_dict()) == ["bias"]
