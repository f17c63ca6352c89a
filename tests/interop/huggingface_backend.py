"""Plugin of pytest that runs ``transformers`` models on Edgewise.

An implementation of "sdpa", which is the default, becomes "edgewise". Longformer, LED, BigBird and
Reformer are accelerated when they are built.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import Any

from transformers import PreTrainedModel

from edgewise import ArgumentError
from edgewise.interop.huggingface import accelerate
from edgewise.interop.huggingface.accelerated import FAMILIES
from edgewise.interop.huggingface.attention import NAME

choose = PreTrainedModel.get_correct_attn_implementation
post_init = PreTrainedModel.post_init


@wraps(choose)
def choose_edgewise(self: Any, *args: Any, **kwargs: Any) -> str:
    """Return "edgewise" in place of "sdpa"."""
    implementation: str = choose(self, *args, **kwargs)
    return NAME if implementation == "sdpa" else implementation


@wraps(post_init)
def then_accelerate(self: Any) -> None:
    """Accelerate the model after its construction."""
    post_init(self)
    if type(self).__name__.startswith(FAMILIES):
        with suppress(ArgumentError):  # Parts of a model may have no attention.
            accelerate(self)


PreTrainedModel.get_correct_attn_implementation = choose_edgewise  # type: ignore[method-assign]
PreTrainedModel.post_init = then_accelerate  # type: ignore[method-assign]
