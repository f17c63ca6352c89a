"""The Compressive Transformer: memories in their order, the older as means of a few."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import models
from edgewise.layers import Cache, TextModel
from edgewise.models.compressive import Compressed
from tests.errors import refused

VOCABULARY, WIDTH = 11, 8


def small(name: str = "compressive", **options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": WIDTH, "depth": 2, "heads": 2, "ffn_dim": 12}
    model = models.MODELS[name](VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (2, count))


@pytest.mark.parametrize("split", [(20,), (1,) * 20, (7, 6, 7), (3, 0, 17)])
def test_what_is_kept_of_nodes_does_not_depend_on_the_segments(split: tuple[int, ...]) -> None:
    nodes, layer, cache = torch.randn(2, 20, 3), nn.Identity(), Cache()
    memory, past = Compressed(length=4, compressed=3, rate=3), 0
    for part in nodes.split(split, dim=1):
        source = memory.prepend(layer, part, cache)
        assert source.shape[1] == memory.num_memories(past) + part.shape[1]
        memory.update(layer, source, cache)
        past += part.shape[1]
    means, recent = cache.state(layer)
    assert torch.equal(recent, nodes[:, 15:]), "20 nodes: 5 means of 3, and 5 of which 4 must be"
    by_hand = torch.stack([nodes[:, first : first + 3].mean(1) for first in (6, 9, 12)], 1)
    torch.testing.assert_close(means, by_hand)
    assert memory.num_memories(20) == 3 + 5


def test_means_of_one_are_a_longer_memory() -> None:
    text, outs = ids(18), []
    for name, options in (
        ("compressive", {"memory": 2, "compressed": 5, "rate": 1}),
        ("transformer_xl", {"memory": 7}),
    ):
        model, cache = small(name, **options), Cache()
        outs.append(torch.cat([model(part, cache=cache) for part in text.split(3, dim=1)], 1))
    torch.testing.assert_close(*outs, rtol=0, atol=1e-12)


def test_means_reach_farther_than_the_memory() -> None:
    text = ids(8)
    other = text.clone()
    other[:, 0] = 2 + (text[:, 0] - 1) % (VOCABULARY - 2)
    for compressed, reached in ((0, False), (3, True)):
        model, last = small(memory=2, compressed=compressed, rate=2, depth=1), []
        for one in (text, other):
            cache = Cache()
            last.append([model(part, cache=cache) for part in one.split(2, dim=1)][-1])
        assert torch.allclose(*last) is not reached


def test_padding_is_not_compressed() -> None:
    model, cache, text = small(memory=2, rate=2), Cache(), ids(6)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, 0] = 0
    model(text, mask[:, :6], cache=cache)
    with refused("attention_mask", expected="no padding", got="padding", remedy="transformer_xl"):
        model(text[:, :2], mask, cache=cache)
