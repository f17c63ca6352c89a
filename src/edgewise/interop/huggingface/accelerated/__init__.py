"""Whole ``transformers`` models that compute attention themselves, accelerated by Edgewise."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from edgewise._utils.errors import ArgumentError, require

FAMILIES = ("Longformer", "LED", "BigBird", "Reformer")
Model = TypeVar("Model", bound=nn.Module)


def accelerate(model: Model) -> Model:
    """Run the attention of a ``transformers`` model on Edgewise, in place, and return the model.

    For Longformer, LED, BigBird and Reformer, which compute attention themselves. Weights, their
    names and the outputs stay those of the model, so that checkpoints, ``Trainer`` and ``generate``
    work as before. In training, attention needs less time and memory; it samples other dropout
    masks than before, from PyTorch's random generator. Outputs at padding may differ.

    The original modules compute calls with ``output_attentions=True`` (except full attention),
    BigBird and local attention of Reformer with padding before or between tokens, and Reformer with
    a cache or with fewer chunks than a chunk attends to.

    Raises:
        ArgumentError: the model has no attention layer of these families.
        MissingExtraError: transformers is not installed.

    Example:
        >>> from edgewise.interop.huggingface import accelerate
        >>> from transformers import LongformerConfig, LongformerModel
        >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> model = accelerate(LongformerModel(LongformerConfig(attention_window=4, **sizes)))
    """
    require("transformers", extra="text", purpose="accelerating its models")
    from edgewise.interop.huggingface.accelerated.replace import replace_attention

    if not replace_attention(model):
        raise ArgumentError(
            "model",
            expected=f"a model of {', '.join(FAMILIES[:-1])} or {FAMILIES[-1]} of transformers",
            got=type(model).__name__,
            remedy='build other models with attn_implementation="edgewise", after importing '
            "edgewise.interop.huggingface",
        )
    return model
