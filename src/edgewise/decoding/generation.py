"""Text generation, one token after the other."""

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
    """The prompts and what the model writes after them, ``[B, T + new]``.

    Call ``model.eval()`` first, as dropout would disturb. Several texts are written side by side;
    those that have ended are filled up with padding until all have.

    Args:
        model: of text; or of pairs, with ``memory=model.encode(source_ids, source_mask)`` and the
            beginning of the target as prompt.
        prompt: ids ``[B, T]``, padded on the left.
        attention_mask: ``[B, T]``, 0 where a token is padding.
        max_new_tokens: how many at most.
        choose: ``Greedy()`` or ``Sample(temperature, top_k, top_p)``.
        end: the token that ends a text.
        padding: the token after that.
        memory: another sequence that the model reads.
        cached: keep keys and values between steps; the tokens are the same without, later.

    Raises:
        ArgumentError: padding on the right; a text longer than learned positions reach.
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
