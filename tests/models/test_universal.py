"""Universal Transformer: one layer, coordinates at each step, and tokens that stop."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.decoding import beam_search, generate
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.layers import Cache, LanguageModelHead, TextModel, collect_penalties
from edgewise.models.universal import UniversalStack, num_steps
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
    model = small(halting=True, depth=4, halting_threshold=threshold)
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


PROBABILITIES = [[0.3, 0.9], [0.5, 0.7], [0.4, 0.2], [0.6, 0.6]]
"""Halting probabilities of two tokens at four steps.

Token 0: .3, .8, 1.2 reaches .99 at step 3, so its weights are .3, .5 and the remainder .2. Token 1:
.9, 1.6 reaches .99 at step 2, so its weights are .9 and .1.
"""


class Prescribed(nn.Module):
    """Halting unit that returns given logits, one row for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(PROBABILITIES, dtype=torch.double).logit())
        self.step = 0

    def forward(self, h: Tensor) -> Tensor:
        self.step += 1
        return self.logits[self.step - 1].expand(h.shape[:-1])[..., None]


class PlusOne(nn.Module):
    def forward(self, x: Tensor, _graph: graphs.Pattern, **_: object) -> Tensor:
        return x + 1


def prescribed(depth: int = 4, ponder_cost: float = 0.5) -> UniversalStack:
    return UniversalStack(
        PlusOne(), depth, nn.Identity(), graphs.complete(), halt=Prescribed(),
        ponder_cost=ponder_cost,
    )  # fmt: skip


def test_steps_remainders_and_weights_of_two_tokens_are_those_computed_by_hand() -> None:
    stack = prescribed()
    x = torch.zeros(1, 2, 4, dtype=torch.double)
    out, steps, remainder = stack.run(x)
    assert steps.tolist() == [[3, 2]]
    torch.testing.assert_close(remainder, torch.tensor([[0.2, 0.1]]).double())
    place, state, states = sinusoidal_positions(torch.arange(2), 4), x[0], []
    for step in (1, 2, 3):
        state = state + place + sinusoidal_positions(torch.tensor([step]), 4) + 1
        states.append(state)
    first = 0.3 * states[0][0] + 0.5 * states[1][0] + 0.2 * states[2][0]
    second = 0.9 * states[0][1] + 0.1 * states[1][1]
    torch.testing.assert_close(out[0], torch.stack([first, second]), rtol=0, atol=1e-14)
    # At the last step a token stops, whatever its probability: 1 - .3 is left after one step.
    _, steps, remainder = prescribed(depth=2).run(x)
    assert steps.tolist() == [[2, 2]]
    torch.testing.assert_close(remainder, torch.tensor([[0.7, 0.1]]).double())


def test_the_ponder_cost_is_the_mean_of_steps_and_remainders_with_its_gradient() -> None:
    stack, x = prescribed().train(), torch.zeros(1, 2, 4, dtype=torch.double)
    with collect_penalties() as penalties:
        stack(x)
    (penalty,) = penalties
    assert penalty.item() == pytest.approx(0.5 * (3.2 + 2.1) / 2)
    penalty.backward()
    # Graves, equation 14: the derivative by p is -1 before the last step of a token, and 0 at it.
    p = torch.tensor(PROBABILITIES, dtype=torch.double)
    counts = torch.tensor([[1, 1], [1, 0], [0, 0], [0, 0]])
    torch.testing.assert_close(stack.halt.logits.grad, -0.25 * counts * p * (1 - p))


def test_only_training_steps_with_a_ponder_cost_are_charged() -> None:
    x = torch.zeros(1, 2, 4, dtype=torch.double)
    fixed = UniversalStack(PlusOne(), 2, nn.Identity(), graphs.complete())
    for stack in (prescribed().eval(), prescribed(ponder_cost=0.0).train(), fixed.train()):
        with collect_penalties() as penalties:
            stack(x)
        assert not penalties
    prescribed().train()(x)  # Without a collector, the penalty has no effect.


def test_padding_changes_neither_states_nor_steps_nor_ponder_cost() -> None:
    """With padding at the end, between tokens, and around a bound graph, as without padding."""
    model = small(halting=True, depth=4, halting_threshold=0.8, ponder_cost=1.0, dropout=0.0)
    nn.init.normal_(model.backbone.stack.halt.weight, std=1.0)
    nn.init.constant_(model.backbone.stack.halt.bias, -1.0)
    text, lengths = ids(7), (7, 4)

    @torch.no_grad()
    def penalty(*given: Tensor, graph: graphs.Pattern | None = None) -> float:
        model.train()
        with collect_penalties() as penalties:
            model(*given, graph=graph)
        return float(penalties[0])

    alone = [row[None, :length] for row, length in zip(text, lengths, strict=True)]
    steps = torch.cat([num_steps(model, row)[0] for row in alone])
    assert len(steps.unique()) > 1
    total = sum(penalty(row) * row.shape[1] for row in alone) / sum(lengths)
    end = (torch.arange(7) < torch.tensor(lengths)[:, None]).long()
    inside = torch.tensor([[1] * 7, [1, 1, 0, 1, 0, 1, 0]])
    for mask in (end, inside):
        padded = text.clone()
        padded[1, mask[1].bool()] = text[1, :4]
        found = num_steps(model, padded, mask)
        assert not found[mask == 0].any()
        if mask is end:
            assert torch.equal(found[mask.bool()], steps)
            assert penalty(padded, mask) == pytest.approx(total, abs=1e-12)
        else:  # Positions count the padding inside a text.
            own = [found[i][row.bool()] for i, row in enumerate(mask)]
            expected = torch.cat(own).mean().item()
            assert 0 < penalty(padded, mask) - expected < 1, "steps, plus remainders below 1"
        states = model(padded, mask)[mask.bool()]
        if mask is end:
            torch.testing.assert_close(states[:7], model(alone[0])[0], rtol=0, atol=1e-12)
            torch.testing.assert_close(states[7:], model(alone[1])[0], rtol=0, atol=1e-12)
    bound = graphs.complete().bind(7)
    assert penalty(text, end, graph=bound) == pytest.approx(total, abs=1e-12)


def test_without_a_stop_halting_equals_fixed_steps() -> None:
    halting, fixed = small(halting=True), small()
    weights = halting.state_dict()
    halt = {name for name in weights if ".halt." in name}
    fixed.load_state_dict({name: w for name, w in weights.items() if name not in halt})
    nn.init.zeros_(halting.backbone.stack.halt.weight)
    nn.init.constant_(halting.backbone.stack.halt.bias, -100.0)
    text = ids()
    torch.testing.assert_close(halting(text), fixed(text), rtol=0, atol=1e-14)
    for model in (halting, fixed):
        assert torch.equal(num_steps(model, text), torch.full((2, 6), 3.0).double())


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
    model = small(halting=halting, depth=4, halting_threshold=0.7, graph=graphs.causal())
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
    with refused("halting_threshold", expected="probability", got="1.5", remedy="0.99"):
        small(halting=True, halting_threshold=1.5)
    with refused("ponder_cost", expected="at least 0", got="-1", remedy="set ponder_cost to"):
        small(halting=True, ponder_cost=-1.0)
    with refused("model", expected="universal", got="TextModel", remedy="trunk"):
        num_steps(models.gpt(VOCABULARY, width=8, depth=1, heads=2), ids())
    with refused("depth", expected="at least 1", got="0", remedy="set depth to"):
        small(depth=0)


def test_halting_on_meta_gives_shapes() -> None:
    with torch.device("meta"):
        model = models.universal(11, width=8, depth=2, heads=2, ffn_dim=12, halting=True)
    assert model(torch.zeros(2, 5, dtype=torch.long, device="meta")).shape == (2, 5, 8)
