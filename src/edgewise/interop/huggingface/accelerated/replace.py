"""Replacement of attention modules by subclasses that run on Edgewise."""

from __future__ import annotations

from torch import nn
from transformers import PreTrainedModel
from transformers.models.big_bird.modeling_big_bird import BigBirdAttention
from transformers.models.led.modeling_led import LEDDecoderAttention, LEDEncoderSelfAttention
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
from transformers.models.reformer.modeling_reformer import LocalSelfAttention, LSHSelfAttention

from edgewise.interop.huggingface.accelerated import bigbird
from edgewise.interop.huggingface.accelerated.full import EdgewiseLEDDecoderAttention
from edgewise.interop.huggingface.accelerated.longformer import (
    EdgewiseLEDEncoderSelfAttention,
    EdgewiseLongformerSelfAttention,
)
from edgewise.interop.huggingface.accelerated.reformer import (
    EdgewiseLocalSelfAttention,
    EdgewiseLSHSelfAttention,
)
from edgewise.interop.huggingface.attention import NAME, register

KINDS: dict[type[nn.Module], type[nn.Module]] = {
    **bigbird.KINDS,
    LEDDecoderAttention: EdgewiseLEDDecoderAttention,
    LEDEncoderSelfAttention: EdgewiseLEDEncoderSelfAttention,
    LSHSelfAttention: EdgewiseLSHSelfAttention,
    LocalSelfAttention: EdgewiseLocalSelfAttention,
    LongformerSelfAttention: EdgewiseLongformerSelfAttention,
}
"""Replacement for each class of ``transformers``."""


GRAPH_MASKS = {kind.__module__ for kind in (BigBirdAttention, LEDDecoderAttention)}
"""Modules of the models whose full attention takes graphs as masks."""


def replace_attention(model: nn.Module) -> bool:
    """Replace the classes of attention modules, and return whether the model has any."""
    register()
    for module in model.modules():
        module.__class__ = KINDS.get(type(module), type(module))
        if isinstance(module, PreTrainedModel) and type(module).__module__ in GRAPH_MASKS:
            module.config._attn_implementation = NAME  # The name of the mask function, too.
    return any(type(module) in KINDS.values() for module in model.modules())
