"""Position encodings of text models, chosen by name."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgewise import graphs, models
from edgewise.encodings import TEXT_POSITIONS, Rotary, Sinusoidal, TextPositions, text_positions
from edgewise.layers import Cache, EncoderDecoderModel, TextModel
from tests.errors import refused

VOCABULARY, WIDTH, HEADS = 11, 16, 2
NAMES = list(TEXT_POSITIONS)
OF_A_LENGTH = [name for name in NAMES if name != "scaled"]
"""Names whose codes do not depend on the number of tokens of a call."""
DEFAULTS = {"gpt": "learned", "bert": "learned", "transformer": "sinusoidal"}
FIRST_LOSSES = {"gpt": 2.245548, "bert": 2.365837, "roberta": 2.342876, "transformer": 2.510320}
"""Losses of the initial models before positions could be chosen."""


def small(model: str, positions: str, **options: object) -> TextModel | EncoderDecoderModel:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "depth": 2, "heads": HEADS, "ffn_dim": 32, "max_length": 12}
    built = models.MODELS[model](VOCABULARY, **sizes, positions=positions, **options)
    for parameter in built.double().eval().parameters():
        nn.init.normal_(parameter, mean=0.1, std=0.4)
    return built


def ids(count: int = 9) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(2, VOCABULARY, (2, count))


def states(model: TextModel | EncoderDecoderModel, text: Tensor) -> Tensor:
    return model(text, None, text) if isinstance(model, EncoderDecoderModel) else model(text)


@pytest.mark.parametrize("name", FIRST_LOSSES)
@torch.no_grad()
def test_initial_weights_and_losses_of_the_default_are_unchanged(name: str) -> None:
    text = torch.arange(24).view(2, 12) % VOCABULARY
    for options in [{}, {"positions": DEFAULTS[name]}] if name in DEFAULTS else [{}]:
        torch.manual_seed(0)
        model = models.MODELS[name](
            VOCABULARY, width=16, depth=2, heads=2, ffn_dim=32, **options
        ).eval()
        logits = model.logits(states(model, text)).flatten(0, 1)
        assert float(F.cross_entropy(logits, text.flatten())) == pytest.approx(
            FIRST_LOSSES[name], abs=2e-5
        )


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("model", DEFAULTS)
@pytest.mark.parametrize("positions", NAMES)
def test_every_weight_gets_a_gradient(model: str, positions: str) -> None:
    built, text = small(model, positions), ids()
    built.logits(states(built, text)).square().sum().backward()
    idle = [n for n, p in built.named_parameters() if p.grad is None or not p.grad.any()]
    assert not idle


@pytest.mark.parametrize("positions", NAMES)
def test_only_without_positions_is_the_order_of_tokens_lost(positions: str) -> None:
    text, order = ids(), torch.tensor([3, 1, 4, 0, 8, 5, 2, 7, 6])
    model = small("bert", positions)
    same = torch.allclose(model(text)[:, order], model(text[:, order]), rtol=0, atol=1e-10)
    assert same is (positions == "none")


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", DEFAULTS)
@pytest.mark.parametrize("positions", NAMES[1:])
def test_positions_change_the_states(name: str, positions: str) -> None:
    model, none, text = small(name, positions), small(name, "none"), ids()
    none.load_state_dict(model.state_dict(), strict=False)
    assert not torch.allclose(states(model, text), states(none, text), rtol=0, atol=1e-6)
    if isinstance(model, EncoderDecoderModel):  # Encoder and decoder have their own weights.
        relative = {model.core.encoder.relative, model.core.decoder.relative}
        kept = text_positions(positions, width=WIDTH, heads=HEADS, max_length=12).relative
        assert relative == {None} if kept is None else len(relative - {None}) == 2


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("positions", OF_A_LENGTH)
@pytest.mark.parametrize("name", ["gpt", "transformer"])
def test_decoding_with_a_cache_equals_the_whole_text(name: str, positions: str) -> None:
    model, text, cache = small(name, positions), ids(), Cache()
    if isinstance(model, EncoderDecoderModel):
        whole, memory = model(text, None, text), model.encode(text)
        parts = [
            model.decode(part, memory=memory, cache=cache) for part in text.split([4, 1, 4], 1)
        ]
    else:
        whole = model(text)
        parts = [model(part, cache=cache) for part in text.split([4, 1, 4], 1)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-10)


@pytest.mark.parametrize("positions", OF_A_LENGTH)
def test_padding_changes_nothing(positions: str) -> None:
    model, text = small("bert", positions), ids()
    mask = (torch.arange(9) < torch.tensor([[9], [5]])).long()
    padded = model(text, mask)
    torch.testing.assert_close(padded[:1], model(text[:1]), rtol=0, atol=1e-10)
    torch.testing.assert_close(padded[1:, :5], model(text[1:, :5]), rtol=0, atol=1e-10)


def test_an_added_code_enters_once_and_a_rotation_in_every_layer() -> None:
    none, text = small("gpt", "none"), ids()
    added = small("gpt", "sinusoidal")
    added.load_state_dict(none.state_dict())
    x = Sinusoidal(WIDTH)(none.embedding.tokens(text))
    torch.testing.assert_close(added(text), none.backbone(x), rtol=0, atol=1e-12)
    rotated = small("gpt", "rotary")
    rotated.load_state_dict(none.state_dict())
    for layer in none.backbone.stack.layers:
        layer.attention.sublayer.rotary = Rotary(WIDTH // HEADS)
    torch.testing.assert_close(rotated(text), none(text), rtol=0, atol=1e-12)
    assert not torch.allclose(rotated(text), added(text))
    crossing = small("transformer", "rotary").core.decoder.stack.layers[0].cross.sublayer
    assert crossing.rotary is None


@pytest.mark.parametrize("positions", NAMES)
def test_an_encoder_of_features_equals_bert_on_its_embeddings(positions: str) -> None:
    model, text = small("bert", positions, types=0, act="relu"), ids()
    sizes = {"depth": 2, "heads": HEADS, "ffn_dim": 32, "max_length": 12}
    encoder = models.transformer_encoder(WIDTH, **sizes, positions=positions).double()
    model.embedding.norm = nn.Identity()
    encoder.layers.load_state_dict(model.backbone.stack.layers.state_dict())
    for part, own in (("added", model.embedding.positions), ("relative", model.backbone.relative)):
        if own is not None:
            getattr(encoder, part).load_state_dict(own.state_dict())
    for layer in [*model.modules(), *encoder.modules()]:
        if isinstance(layer, nn.LayerNorm):
            layer.eps = 1e-5
    x = model.embedding.tokens(text)
    torch.testing.assert_close(encoder(x), model(text), rtol=0, atol=1e-10)
    packed = encoder(
        torch.cat([x[0], x[1, :4]]),
        graphs.batch(graphs.complete(), [9, 4]),
        positions=torch.tensor([*range(9), *range(4)]),
    )
    torch.testing.assert_close(packed[:9], encoder(x[0]), rtol=0, atol=1e-10)
    torch.testing.assert_close(packed[9:], encoder(x[1, :4]), rtol=0, atol=1e-10)


def test_the_registry() -> None:
    found = text_positions("binary", width=8, heads=2, max_length=64)
    assert found.added.bits == 6
    assert text_positions("none", width=8, heads=2, max_length=64) == TextPositions()
    assert type(models.transformer_encoder(8)) is not type(
        models.transformer_encoder(8, positions="rotary")
    )
    with refused("positions", expected="sinusoidal", got="sinusoid", remedy="sinusoidal"):
        small("gpt", "sinusoid")
