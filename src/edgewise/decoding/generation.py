"""Text generation by greedy decoding or sampling."""

from __future__ import annotations

import torch
from torch import Tensor

from edgewise.decoding.choose import Choose, Greedy
from edgewise.decoding.continuation import Continuation
from edgewise.layers import EncoderDecoderModel, Memory, TextModel

GREEDY = Greedy()


@torch.no_grad()
def generate(
    model: TextModel | EncoderDecoderModel,
    prompt: Tensor,
    attention_mask: Tensor | None = None,
    *,
    max_new_tokens: int = 32,
    choose: Choose = GREEDY,
    end: int | None = None,
    padding: int = 0,
    memory: Memory | None = None,
    cached: bool = True,
) -> Tensor:
    """Generate texts that continue prompts.

    Call ``model.eval()`` first to disable dropout. Generation stops when all texts of the batch
    have ended; shorter texts are padded.

    Args:
        model: language model; or encoder-decoder, with ``memory=model.encode(source_ids,
            source_mask)`` and the first target tokens as prompt.
        prompt: token ids ``[B, T]``, padded on the left.
        attention_mask: ``[B, T]``, 0 for padding.
        max_new_tokens: maximum number of new tokens.
        choose: ``Greedy()`` or ``Sample(temperature, top_k, top_p)``.
        end: id of the end-of-text token.
        padding: id of the padding token, which fills a text after its end.
        memory: encoded sequence for cross-attention.
        cached: whether to cache keys and values between steps. The result is the same without.

    Returns:
        Token ids of prompts and new tokens, ``[B, T + new]``.

    Raises:
        ArgumentError: a prompt is padded on the right, or a text exceeds the maximum length of
            learned positions.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> from edgewise.decoding import Sample, generate
        >>> model = models.gpt(1000).eval()
        >>> prompt = torch.tensor([[1, 2, 3]])
        >>> generate(model, prompt, max_new_tokens=5, choose=Sample(top_k=10)).shape
        torch.Size([1, 8])
    """
    text, tokens = Continuation(model, memory, cached=cached), prompt
    open_ = torch.ones(prompt.shape[0], dtype=torch.bool, device=prompt.device)
    new, mask = prompt, attention_mask
    for _ in range(max_new_tokens):
        chosen = choose(text.read(new, mask)).masked_fill(~open_, padding)
        new, mask = chosen[:, None], None
        tokens = torch.cat([tokens, new], dim=1)
        if end is not None:
            open_ = open_ & (chosen != end)
            if not bool(open_.any()):
                break
    return tokens
