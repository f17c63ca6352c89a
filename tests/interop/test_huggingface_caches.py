"""Speculative decoding of transformers on Edgewise, and a batch of one padded text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from edgewise.interop import huggingface
from tests.interop.test_huggingface import GPT2_NUMBERS, SMALL, T5, VOCABULARY, close, made

transformers = pytest.importorskip("transformers")
pytest.importorskip("transformers.masking_utils")
assert huggingface.on_graph  # The import registers "edgewise".

CONFIGS: dict[str, Callable[[], object]] = {
    "Llama": lambda: transformers.LlamaConfig(**SMALL, num_key_value_heads=2),
    "GPT2": lambda: transformers.GPT2Config(**GPT2_NUMBERS),
}
HEADS = {"Llama": "LlamaForCausalLM", "GPT2": "GPT2LMHeadModel"}


def model(name: str, implementation: str) -> nn.Module:
    kind = getattr(transformers, HEADS[name])
    return made(lambda: kind._from_config(CONFIGS[name](), attn_implementation=implementation))


def prompt(count: int) -> Tensor:
    torch.manual_seed(1)
    return torch.randint(3, VOCABULARY, (count, 9))


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("how", ["assistant", "prompt lookup"])
def test_assisted_decoding_generates_the_same_text(name: str, how: str) -> None:
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    ids = prompt(1).repeat(1, 2)
    expected = model(name, "eager").generate(ids, **options)
    ours = model(name, "edgewise")
    if how == "assistant":
        assistant = model(name, "edgewise")
        for parameter in assistant.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
        options["assistant_model"] = assistant
    else:
        options["prompt_lookup_num_tokens"] = 3
    assert ours.generate(ids, **options).tolist() == expected.tolist()


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("cache_kind", ["dynamic", "static"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_tree_masks_with_a_cache(name: str, cache_kind: str, batch_size: int) -> None:
    """Four nodes of a tree of candidate tokens after nine cached tokens."""
    parents = [[0], [0, 1], [0, 2], [0, 1, 3]]  # Nodes that each node attends to.
    logits = []
    for implementation in ("edgewise", "eager"):
        decoder = model(name, implementation)
        if cache_kind == "dynamic":
            cache, length = transformers.DynamicCache(config=decoder.config), 13
        else:
            cache, length = transformers.StaticCache(config=decoder.config, max_cache_len=20), 20
        decoder(input_ids=prompt(batch_size), cache=cache, use_cache=True)
        mask = torch.full((batch_size, 1, 4, length), torch.finfo(torch.float32).min)
        mask[..., :9] = 0
        for node, sources in enumerate(parents):
            mask[:, :, node, [9 + source for source in sources]] = 0
        step = {
            "input_ids": torch.tensor([[5, 6, 7, 8]]).expand(batch_size, -1),
            "position_ids": torch.tensor([[9, 10, 10, 11]]).expand(batch_size, -1),
        }
        logits.append(decoder(**step, attention_mask=mask, cache=cache).logits)
    close(*logits)


@pytest.mark.parametrize("tokens", [range(6), range(3, 9), (0, 1, 4, 5, 6, 8)])
def test_t5_with_one_padded_text(tokens: range | tuple[int, ...]) -> None:
    ids, mask = prompt(1), torch.zeros(1, 9, dtype=torch.long)
    mask[:, list(tokens)] = 1
    logits, gradients = [], []
    for implementation in ("edgewise", "eager"):
        kind, config = transformers.T5ForConditionalGeneration, transformers.T5Config(**T5)
        t5 = made(lambda: kind._from_config(config, attn_implementation=implementation))  # noqa: B023
        logits.append(t5(ids, attention_mask=mask, decoder_input_ids=ids[:, :5]).logits)
        logits[-1].sum().backward()
        biases = (p for name, p in t5.named_parameters() if "relative_attention_bias" in name)
        gradients.append(torch.cat([bias.grad for bias in biases]))
    close(*logits)
    close(*gradients)
