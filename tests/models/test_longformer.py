"""Longformer: its two attentions by the formula, hubs of each text, and what it refuses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.layers import Cache
from edgewise.models.longformer import LongformerAttention, LongformerModel
from tests.errors import refused

VOCABULARY = 11
HEADS = 2


def small(**options: object) -> LongformerModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 2, "heads": 2, "ffn_dim": 12}
    model = models.longformer(VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int = 9, batch: int = 3) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (batch, count))


@pytest.mark.parametrize("by_head", [False, True])
def test_a_hub_reads_all_by_its_own_maps_and_a_token_its_window_and_the_hubs(by_head: bool) -> None:
    """Whether keys and values of all tokens are made for the hub, or each head reads the tokens."""
    torch.manual_seed(0)
    layer, count, hub = LongformerAttention(4, HEADS).double(), 7, 5
    x = torch.randn(count, 4, dtype=torch.double)
    local = (graphs.window(1) | graphs.hubs([hub], reads=False)).bind(count)
    maps = layer.qkv.weights()
    own, bias = [maps, layer.qkv.bias.split(4)], layer.qkv.bias
    other = (layer.hub_query, layer.hub_key, layer.hub_value)
    rows = []
    for i in range(count):
        if i == hub:
            query, key, value = (m(x) for m in other)
            seen = list(range(count))
        else:
            query, key, value = (x @ m.T + b for m, b in zip(*own, strict=True))
            seen = [j for j in range(count) if abs(i - j) <= 1 or j == hub]
        heads = (x.chunk(HEADS, -1) for x in (query[i], key[seen], value[seen]))
        read = [(q @ k.T / 2**0.5).softmax(-1) @ v for q, k, v in zip(*heads, strict=True)]
        rows.append(torch.cat(read))
    assert bias.numel() == 12
    # With several heads their number says which of the two it is; one would be either.
    hub_graph = graphs.complete().bind(HEADS if by_head else 1, count)
    out = layer(x, local, hubs=torch.tensor([hub]), hub_graph=hub_graph)
    torch.testing.assert_close(out, layer.output(torch.stack(rows)))


def test_it_begins_with_maps_of_hubs_that_are_the_tokens() -> None:
    model = models.longformer(VOCABULARY, width=8, heads=2)
    for layer in model.backbone.layers:
        attention = layer.attention.sublayer
        hub = (attention.hub_query, attention.hub_key, attention.hub_value)
        for one, weight in zip(hub, attention.qkv.weights(), strict=True):
            assert torch.equal(one.weight, weight)


def test_a_window_as_long_as_the_text_with_maps_alike_is_the_complete_graph() -> None:
    model = small(radius=9)
    for layer in model.backbone.layers:
        layer.attention.sublayer.init_hub_projections()
    hubs_or_none = [torch.zeros_like(ids()), torch.ones_like(ids()), None]
    one, two, three = (model(ids(), global_attention_mask=mask) for mask in hubs_or_none)
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(one, three)


@pytest.mark.parametrize(
    ("radius", "reached"), [((1, 0), [4, 5, 6]), ((1, 2), [2, 3, 4, 5, 6, 7, 8])]
)
def test_each_layer_has_its_window(radius: tuple[int, int], reached: list[int]) -> None:
    """Which tokens change when the one in the middle does, without hubs."""
    model, text = small(radius=radius, hubs=()), ids(11, 1)
    other = text.clone()
    other[0, 5] = 2 + (text[0, 5] - 1) % (VOCABULARY - 2)
    changed = (model(text) - model(other)).abs().amax(-1)[0] > 0
    assert changed.nonzero().flatten().tolist() == reached


def test_a_hub_carries_from_one_end_to_the_other() -> None:
    text = ids(11, 1)
    other = text.clone()
    other[0, 10] = 2 + (text[0, 10] - 1) % (VOCABULARY - 2)
    for hubs, reached in (((), False), ((5,), True), ((-1,), True)):
        model = small(radius=1, hubs=hubs)
        assert bool((model(text)[0, 0] != model(other)[0, 0]).any()) is reached


def test_hubs_may_differ_from_text_to_text() -> None:
    model, text = small(radius=1), ids()
    marks = torch.zeros_like(text)
    marks[0, 2] = marks[1, 7] = marks[1, 8] = 1
    together = model(text, global_attention_mask=marks)
    for b in range(3):
        alone = model(text[b : b + 1], global_attention_mask=marks[b : b + 1])
        torch.testing.assert_close(together[b], alone[0])
    assert not torch.allclose(together, model(text))


def test_a_hub_of_padding_is_none() -> None:
    """As where the first place of every row is marked, and one row is padding alone."""
    model, text = small(radius=1), ids()
    marks, mask = torch.zeros_like(text), torch.ones_like(text)
    marks[:, 0] = 1
    mask[1] = mask[2, 5:] = 0
    marks[2, 7] = 1
    out = model(text, mask, global_attention_mask=marks)
    torch.testing.assert_close(out[0], model(text[:1], global_attention_mask=marks[:1])[0])
    own = model(text[2:, :5], global_attention_mask=marks[2:, :5])
    torch.testing.assert_close(out[2, :5], own[0])
    assert not out[1].any()


def test_one_text_without_a_batch_has_its_hubs() -> None:
    model, text = small(radius=1), ids()[0]
    for places in ([0, 5], range(9), []):
        marks = torch.zeros_like(text)
        marks[list(places)] = 1
        batch = model(text[None], global_attention_mask=marks[None])[0]
        torch.testing.assert_close(model(text, global_attention_mask=marks), batch)


def test_another_graph_takes_the_windows_place_and_leaves_the_hubs() -> None:
    model, text = small(radius=(1, 1)), ids()
    torch.testing.assert_close(model(text, graph=graphs.window(1)), model(text))
    wide = model(text, graph=graphs.complete())
    assert not torch.allclose(wide, model(text))
    torch.testing.assert_close(wide, small(radius=20)(text))


def test_a_text_of_padding_alone_beside_another() -> None:
    model, text = small(radius=1), ids(5, 2)
    mask = torch.ones_like(text)
    mask[1] = 0
    out = model(text, mask)
    torch.testing.assert_close(out[0], model(text[:1])[0])
    assert not out[1].any()


def test_what_it_cannot_do_is_refused() -> None:
    model, text = small(), ids(5)
    with refused("radius", expected="one integer per layer (2)", got="(1, 2, 3)", remedy="as many"):
        small(radius=(1, 2, 3))
    with refused("radius", expected="at least 0", got="-1", remedy="set radius to"):
        small(radius=-1)
    with refused("heads", expected="divisor of the width 8", got="3", remedy="change"):
        small(heads=3)
    with refused(
        "global_attention_mask", expected="[3, 5]", got="[3, 4]", remedy="global attention"
    ):
        model(text, global_attention_mask=torch.ones(3, 4))
    with refused("graph", expected="at least 6 sources", got="5 targets", remedy="another pattern"):
        small(hubs=(0, 5))(text)
    mask = torch.tensor([[1, 0, 1, 1, 1]]).expand(3, 5)
    with refused(
        "attention_mask", expected="only before or after", got="between", remedy="to the end"
    ):
        model(text, mask)
    with refused("cache", expected="as a whole", got="Cache", remedy="gpt"):
        model(text, cache=Cache())


def test_texts_without_tokens_have_no_states() -> None:
    model = models.longformer(11, width=8, heads=2, depth=1, ffn_dim=8, max_length=9)
    assert model(torch.zeros(2, 0, dtype=torch.long)).shape == (2, 0, 8)
