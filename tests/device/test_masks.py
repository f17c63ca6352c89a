"""A model looks at an attention mask once, however many layers read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from edgewise import models
from edgewise.engines import call, entmax
from edgewise.graphs import graph as graph_module
from edgewise.layers import EncoderDecoderModel, TextModel
from edgewise.layers.tokens import Tokens
from tests.device.simulated import DEVICE, WAITS

IDS = torch.tensor([[2, 5, 3, 9, 2], [4, 4, 8, 1, 1], [7, 2, 6, 5, 1]])
PADDED = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]])
RECURRENT = ("rnn", "lstm", "gru")
"""PyTorch's packing sorts lengths on the host, which this device does not know."""
OF_ROWS = ("linformer", "performer")
"""They get texts side by side, for which lengths go to the device."""
OF_LENGTHS = (
    *("longformer", "bigbird", "reformer", "bp_transformer", "adaptive_span", "universal"),
    *("bert", "roberta", "gpt", "llama", "transformer", "t5"),
)
"""They make a graph of the texts' lengths, and so wait for what is made (docs/howto/gpu.md)."""
TEXT = [name for name in models.TEXT_MODELS if name not in RECURRENT]
EVERY = [*TEXT, *models.ENCODER_DECODER_MODELS]


@pytest.fixture(autouse=True)
def _on_this_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its memory cannot be measured, nobody looks at its numbers, and weights are replaced."""
    monkeypatch.setattr(graph_module, "held_bytes", lambda _: 0)
    for module in (call, entmax):
        monkeypatch.setattr(module, "is_tracing", lambda *_: False)
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)


def small(name: str) -> TextModel | EncoderDecoderModel:
    torch.manual_seed(0)
    numbers = {"width": 8, "depth": 2, "heads": 2, "ffn_dim": 12}
    if name == "t5":
        numbers |= {"head_width": 4}
    model = models.MODELS[name](11, **numbers, dropout=0.0)
    assert isinstance(model, TextModel | EncoderDecoderModel)
    return model


def waits(model: TextModel | EncoderDecoderModel, mask: Tensor | None) -> Counter[str]:
    """What a warm step waits for, forward and backward."""
    ids, mask = IDS.to(DEVICE), None if mask is None else mask.to(DEVICE)
    weights = list(model.parameters())

    def step() -> None:
        if isinstance(model, EncoderDecoderModel):
            out = model(ids, mask, ids, mask)
        else:
            out = model(ids, mask)
        torch.autograd.grad(out, weights, torch.ones_like(out), allow_unused=True)

    step()
    WAITS.clear()
    step()
    return Counter(WAITS)


@pytest.mark.parametrize("name", EVERY)
def test_a_model_waits_once_for_a_mask(name: str) -> None:
    model = small(name).to(DEVICE)
    looks = 2 if isinstance(model, EncoderDecoderModel) else 1  # there are two masks
    before = waits(model, None)
    assert waits(model, torch.ones_like(PADDED)) - before == {"tolist": looks}
    if name not in OF_LENGTHS:
        copies = {"copied to the device": 1} if name in OF_ROWS else {}
        assert waits(model, PADDED) - before == {"tolist": looks, **copies}


@pytest.mark.parametrize("name", EVERY)
def test_it_says_the_same_there(name: str) -> None:
    model = small(name).eval()
    reads = (IDS, PADDED, IDS, PADDED) if name in models.ENCODER_DECODER_MODELS else (IDS, PADDED)
    with torch.no_grad():
        expected = model(*reads)[PADDED.bool()]
        found = model.to(DEVICE)(*(x.to(DEVICE) for x in reads)).held[PADDED.bool()]
    torch.testing.assert_close(found, expected)


def test_tokens_are_padded_without_a_trip_to_the_host() -> None:
    sizes = PADDED.sum(1)
    packed = Tokens(IDS[PADDED.bool()].to(DEVICE), sizes)
    WAITS.clear()
    padded = packed.padded(1)
    assert WAITS == ["copied to the device"]
    assert padded.mask is not None
    assert (padded.ids.tolist(), padded.mask.tolist()) == (IDS.tolist(), PADDED.tolist())
