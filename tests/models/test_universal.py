"""Universal Transformer: one layer, coordinates at each step, and tokens that stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.decoding import beam_search, generate
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.layers import Cache, LanguageModelHead, TextModel
from tests.errors import refused

VOCABULARY = 11


def small(**options: object) -> TextModel:
    torch.manual_seed(0)
    numbers: dict[str, object] = {"width": 8, "depth": 3, "heads": 2, "ffn_dim": 12}
    model = models.universal(VOCABULARY, **{**numbers, **options}).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return model


def ids(count: int = 6) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (2, count))


@pytest.mark.parametrize("order", ["pre", "post"])
def test_it_is_one_layer_with_coordinates_before_each_step(order: str) -> None:
    model = small(order=order)
    text = ids()
    (layer,) = model.backbone.stack.layers
    h = model.embedding(text)
    place = sinusoidal_positions(torch.arange(6), 8)
    for step in (1, 2, 3):
        time = sinusoidal_positions(torch.tensor([step]), 8)
        given = h + place + time
        attend, expand = layer.attention, layer.feed_forward
        if order == "pre":
            middle = given + attend.sublayer(attend.norm(given), graphs.complete())
            h = middle + expand.sublayer(expand.norm(middle))
        else:
            middle = attend.norm(given + attend.sublayer(given, graphs.complete()))
            h = expand.norm(middle + expand.sublayer(middle))
    last = model.backbone.stack.norm
    assert isinstance(last, nn.LayerNorm if order == "pre" else nn.Identity)
    torch.testing.assert_close(model(text), last(h), rtol=0, atol=1e-12)
    one = sum(p.numel() for p in small(depth=1, order=order).parameters())
    assert sum(p.numel() for p in model.parameters()) == one


@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.99])
def test_halting_is_the_weighted_mean_of_the_states_until_a_token_stops(threshold: float) -> None:
    model = small(halting=True, depth=4, threshold=threshold)
    stack = model.backbone.stack
    nn.init.normal_(stack.halt.weight, std=1.0)
    nn.init.constant_(stack.halt.bias, -1.0)
    text = ids(40)
    (layer,) = stack.layers
    state = model.embedding(text)
    count, width = text.shape[1], 8
    place = sinusoidal_positions(torch.arange(count), width)
    chances = [[[] for _ in range(count)] for _ in text]
    out = torch.zeros_like(state)
    for step in range(1, 5):
        given = state + place + sinusoidal_positions(torch.tensor([step]), width)
        stop, new = stack.halt(given).sigmoid().detach(), layer(given, graphs.complete())
        after = state.clone()
        for row in range(len(text)):
            for token in range(count):
                before = chances[row][token]
                if sum(before) >= threshold or sum(before) == 1:
                    continue
                after[row, token] = new[row, token]
                p = float(stop[row, token])
                last = sum(before) + p >= threshold or step == 4
                share = 1 - sum(before) if last else p
                out[row, token] += share * new[row, token]
                before.append(1 - sum(before) if last else p)
        state = after
    torch.testing.assert_close(model(text), stack.norm(out), rtol=0, atol=1e-12)
    steps = {len(each) for row in chances for each in row}
    assert len(steps) > 1, "tokens differ in how many steps they take"


def test_steps_that_nobody_takes_are_not_computed() -> None:
    model = small(halting=True, depth=50)
    (layer,) = model.backbone.stack.layers
    calls = []
    layer.register_forward_hook(lambda *_: calls.append(1))
    nn.init.constant_(model.backbone.stack.halt.bias, 50.0)
    model(ids())
    assert len(calls) == 1
    nn.init.constant_(model.backbone.stack.halt.bias, -50.0)
    model(ids())
    assert len(calls) == 51


def test_on_a_causal_graph_nothing_comes_from_the_future() -> None:
    for halting in (False, True):
        model = small(halting=halting, graph=graphs.causal())
        text = ids()
        later = text.clone()
        later[:, 3:] = 2 + (later[:, 3:] - 1) % (VOCABULARY - 2)
        before, after = model(text), model(later)
        torch.testing.assert_close(before[:, :3], after[:, :3], rtol=0, atol=1e-13)
        assert not torch.allclose(before[:, 3:], after[:, 3:])


@pytest.mark.parametrize("halting", [False, True])
@pytest.mark.parametrize("parts", [(1,) * 9, (4, 1, 4)])
def test_step_by_step_equals_at_once(halting: bool, parts: tuple[int, ...]) -> None:
    """Tokens that have stopped are read at later steps, too, by those that have not."""
    model = small(halting=halting, depth=4, threshold=0.7, graph=graphs.causal())
    if halting:  # some stop at once, and some do not
        nn.init.normal_(model.backbone.stack.halt.weight, std=3.0)
        nn.init.constant_(model.backbone.stack.halt.bias, -8.0)
    for text in ids(9).split(1):  # one by one, so that all tokens of a call may stop
        cache = Cache()
        found = [model(part, cache=cache) for part in text.split(parts, dim=1)]
        torch.testing.assert_close(torch.cat(found, 1), model(text), rtol=0, atol=1e-12)


@pytest.mark.parametrize("halting", [False, True])
@pytest.mark.parametrize("write", [generate, beam_search])
def test_a_cache_changes_time_and_nothing_else(halting: bool, write: Callable[..., Tensor]) -> None:
    torch.manual_seed(0)
    numbers = {"width": 16, "depth": 3, "heads": 2, "ffn_dim": 24, "halting": halting}
    model = models.universal(VOCABULARY, **numbers, graph=graphs.causal()).eval()
    model.head = LanguageModelHead(VOCABULARY, 16, tied=False)  # a tied one would repeat its words
    for parameter in model.double().parameters():
        if parameter.dim() > 1:  # random biases of the last norm would decide every token
            nn.init.normal_(parameter, std=0.6)
    nn.init.normal_(model.embedding.tokens.weight, std=0.5)
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    texts = [write(model, ids(4), mask, max_new_tokens=9, cached=c) for c in (True, False)]
    assert torch.equal(*texts)
    assert texts[0][:, 4:].unique().numel() > 1, "the texts are worth comparing"


def test_the_keys_of_all_steps_are_saved_and_restored() -> None:
    model, text, cache = small(graph=graphs.causal()), ids(), Cache()
    model(text[:, :4], cache=cache)
    cache.detach()
    restored = Cache()
    restored.load_state_dict(model, cache.state_dict(model))
    rest = [model(text[:, 4:], cache=one) for one in (cache, restored)]
    assert torch.equal(*rest)
    torch.testing.assert_close(rest[0], model(text)[:, 4:], rtol=0, atol=1e-12)


def test_bad_input_is_refused() -> None:
    with refused("threshold", expected="probability", got="1.5", remedy="0.99"):
        small(halting=True, threshold=1.5)
    with refused("depth", expected="at least 1", got="0", remedy="larger"):
        small(depth=0)


def test_halting_on_meta_gives_shapes() -> None:
    with torch.device("meta"):
        model = models.universal(11, width=8, depth=2, heads=2, ffn_dim=12, halting=True)
    assert model(torch.zeros(2, 5, dtype=torch.long, device="meta")).shape == (2, 5, 8)
