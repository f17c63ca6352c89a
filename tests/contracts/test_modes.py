"""Every listed model is the same after it was met in a mode of PyTorch, and has shapes on meta."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from edgewise import models
from tests.contracts import test_models, test_text_models

EVERY = [*test_models.SIMPLE, *test_text_models.EVERY]


def small(name: str) -> nn.Module:
    if name in test_text_models.EVERY:
        return test_text_models.small(name)
    return test_models.small(name)


def example(name: str) -> tuple[Any, ...]:
    if name not in test_text_models.EVERY:
        return test_models.example(name)
    ids, _ = test_text_models.padded()
    return (ids, None, ids.flip(0)) if name in models.ENCODER_DECODER_MODELS else (ids,)


def call(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    if name in test_text_models.EVERY:
        out: Tensor = model(*inputs)
        return out
    return test_models.call(name, model, inputs)


def gradients(name: str, model: nn.Module, inputs: tuple[Any, ...]) -> list[Tensor]:
    used = [p for p in model.parameters() if p.requires_grad]
    torch.manual_seed(2)
    out = call(name, model, inputs).square().sum()
    found = torch.autograd.grad(out, used, allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


@pytest.mark.parametrize("name", EVERY)
def test_a_model_evaluated_in_a_mode_trains_afterwards(name: str) -> None:
    expected = gradients(name, small(name), example(name))
    model, inputs = small(name), example(name)
    with torch.inference_mode():
        call(name, model, inputs)
    for mine, other in zip(gradients(name, model, inputs), expected, strict=True):
        torch.testing.assert_close(mine, other)


PACKED = (
    "exphormer",
    "fully_adjacent",
    "gps",
    "graph_bert",
    "graphormer",
    "laplacian_transformer",
    "san",
    *models.TREE_MODELS,
)
READS_NUMBERS = {
    "pinsage": "where its walks lead",
    "reformer": "which bucket a token is in",
    **dict.fromkeys(PACKED, "which nodes make up a graph"),
    **dict.fromkeys(test_text_models.RECURRENT, "which tokens are padding"),
}
"""Models whose shapes depend on numbers, which meta tensors do not have."""


def on_meta(given: Any) -> Any:
    return given.detach().to("meta") if isinstance(given, Tensor) else given


@pytest.mark.parametrize("name", [name for name in EVERY if name not in READS_NUMBERS])
def test_a_model_on_meta_gives_shapes(name: str) -> None:
    expected = call(name, small(name), example(name))
    with torch.device("meta"):
        model = small(name)
    inputs = tuple(map(on_meta, example(name)))
    out = call(name, model, inputs)
    assert out.is_meta
    assert out.shape == expected.shape
    out.square().sum().backward()
