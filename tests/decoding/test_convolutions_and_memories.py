"""Models whose layers keep something else than keys and values decode step by step all the same."""

from __future__ import annotations

import pytest
import torch

from edgewise import models
from edgewise.decoding import beam_search, generate


@pytest.mark.parametrize("name", ["light_conv", "dynamic_conv"])
def test_beams_select_what_convolutions_keep(name: str) -> None:
    torch.manual_seed(0)
    sizes = {"width": 8, "heads": 2, "depth": 2, "ffn_dim": 12, "kernels": (3, 5)}
    model = models.MODELS[name](11, **sizes).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    source, prompt = torch.randint(11, (3, 7)), torch.full((3, 1), 2)
    memory = model.encode(source)
    outs = [
        beam_search(model, prompt, memory=memory, beams=3, max_new_tokens=8, cached=cached)
        for cached in (True, False)
    ]
    assert torch.equal(*outs)


@pytest.mark.parametrize("name", ["transformer_xl", "compressive"])
def test_a_memory_that_holds_all_decodes_as_reading_from_the_beginning(name: str) -> None:
    torch.manual_seed(0)
    model = models.MODELS[name](11, width=8, heads=2, depth=2, ffn_dim=12, memory=32)
    model = model.double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    prompt = torch.randint(11, (3, 4))
    mask = torch.tensor([[1, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]])
    outs = [generate(model, prompt, mask, max_new_tokens=12, cached=c) for c in (True, False)]
    assert torch.equal(*outs)
