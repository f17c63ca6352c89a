"""Longformer, LED, BigBird and Reformer of transformers, with their attention on Edgewise."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from edgewise.interop.huggingface import accelerate
from tests.errors import case, refused
from tests.interop.test_huggingface import SMALL, VOCABULARY, bert, close, made
from tests.interop.test_huggingface_long_texts import bigbird, hubs, longformer, texts
from tests.interop.test_huggingface_reformer import reformer

transformers = pytest.importorskip("transformers")

LED = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "attention_window": [4, 8],
    "max_encoder_position_embeddings": 40,
    "max_decoder_position_embeddings": 40,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}


def led(**overrides: object) -> Callable[[], nn.Module]:
    config = transformers.LEDConfig(**{**LED, "dropout": 0.0, **overrides})
    return lambda: transformers.LEDForConditionalGeneration(config)


FAMILIES: dict[str, Callable[[], nn.Module]] = {
    "longformer": longformer(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    "led": led(),
    "bigbird": bigbird(),
    "bigbird-full": bigbird(attention_type="original_full"),
    "bigbird-decoder": bigbird("ForCausalLM", is_decoder=True, attention_type="original_full"),
    "reformer": reformer(axial_pos_embds=False),
    "reformer-decoder": reformer("ModelWithLMHead", axial_pos_embds=False),
}


def both(
    name: str, dtype: torch.dtype = torch.float32, *, training: bool = False
) -> tuple[nn.Module, nn.Module]:
    """Return the accelerated model and the original model, with equal random weights."""
    original = made(FAMILIES[name], dtype).train(training)
    return accelerate(copy.deepcopy(original)), original


def inputs(name: str, padded: str = "right") -> dict[str, Tensor]:
    """Return a batch of three texts, of several lengths if padded."""
    padding = 1 if name in ("longformer", "led") else 0
    ids, mask = texts(padding, left=padded == "left")
    if name.startswith("reformer"):  # Gradients are those of whole chunks.
        ids, mask = (torch.cat([x, x[:, :3]], 1) for x in (ids, mask))
        mask[:, 21:] = mask[:, 21:] * mask[:, 20:21] if padded == "right" else mask[:, 21:]
    if padded == "none":
        ids, mask = ids.where(mask.bool(), 5), torch.ones_like(mask)
    batch = {"input_ids": ids, "attention_mask": mask}
    if name == "led":
        batch["decoder_input_ids"] = ids.flip(1)[:, :5].clamp(min=3)
    return batch


def scores(model: nn.Module, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the logits of tokens that are not padding, and a loss of them."""
    logits = model(**batch).logits
    if "decoder_input_ids" not in batch:
        logits = logits[batch["attention_mask"].bool()]
    return logits, (logits * torch.linspace(-1, 1, logits.numel()).view_as(logits)).sum() / 10


def agree(ours: nn.Module, original: nn.Module, batch: dict[str, Tensor], limit: float) -> None:
    """Compare logits, and the gradients of all parameters."""
    (logits, loss), (expected, expected_loss) = scores(ours, batch), scores(original, batch)
    close(logits, expected, limit)
    loss.backward()
    expected_loss.backward()
    gradients = {n: p.grad for n, p in original.named_parameters() if p.grad is not None}
    assert len(gradients) > 20
    for parameter_name, parameter in ours.named_parameters():
        with case(parameter_name):
            if parameter_name in gradients:
                close(parameter.grad, gradients[parameter_name], limit)


@pytest.mark.parametrize("padded", ["none", "right", "left"])
@pytest.mark.parametrize("name", FAMILIES)
def test_outputs_and_gradients_are_those_of_the_model(name: str, padded: str) -> None:
    # In training, BigBird samples blocks, and Reformer computes the gradients of its own formula.
    training = name in ("bigbird", "reformer", "reformer-decoder")
    # In float32, a score of -100,000 leaves few digits for tokens without other sources.
    dtype = torch.float64 if name.startswith("reformer") else torch.float32
    ours, original = both(name, dtype, training=training)
    agree(ours, original, inputs(name, padded), 1e-5 if dtype == torch.float32 else 1e-10)
