"""Pruning of attention heads: their weights are removed, and the model runs faster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.explain.losses import recorded_batch
from edgewise.explain.module_names import (
    head_positions,
    layer_keys,
    listed,
    model_of,
    naming_the_run,
    numbered_layer,
)
from edgewise.layers.pruning import keep_heads, prunable_layers

M = TypeVar("M")
Heads = (
    Mapping[str, Iterable[int]] | Mapping[int, Iterable[int]] | Mapping[str | int, Iterable[int]]
)
"""Numbers of heads by name or number of the layer; a union, as Mapping is invariant in its key."""


def prune(model: M, heads: Heads) -> M:
    """Remove attention heads from a model, in place, and return it.

    The outputs are those of the model with these heads multiplied by 0.

    Args:
        model: a model with layers of :class:`edgewise.layers.MultiHeadAttention`, a
            ``transformers`` model (BERT, RoBERTa, DistilBERT, ViT, GPT-2, Llama, BART and others
            with the same projections), or a run of :func:`edgewise.load`.
        heads: heads to remove, as ``{layer: numbers}``. A layer is a name or a number: in a run
            that of `edgewise heads`, in a model the position in :func:`layers_with_heads`. Heads
            keep the numbers that they had before any pruning.

    Raises:
        ArgumentError: a layer or head does not exist, a layer would be left without heads, its
            heads cannot be removed, or a model has attention layers that cannot be pruned, so that
            the numbers of its layers are not known before a forward pass.

    Example:
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32)
        >>> _ = explain.prune(bert, {0: [1]})
        >>> explain.layers_with_heads(bert)
        {'backbone.stack.layers.0.attention.sublayer': [0]}
    """
    _keep(model_of(model), remaining_heads(model, heads))
    return model


def remaining_heads(
    model: Any, heads: Heads, names: Sequence[str] | None = None
) -> dict[str, list[int]]:
    """Return by layer name the heads that :func:`prune` would keep in the layers of ``heads``."""
    layers = layers_with_heads(model)
    with naming_the_run(
        model,
        "a run whose model has heads that can be removed",
        "choose a run of a Transformer, such as bert or vit",
    ):
        if not layers:
            raise ArgumentError(
                "model",
                expected="a model with layers whose heads can be removed",
                got=f"{type(model_of(model)).__name__}, which has no such layer",
                remedy="prune a Transformer with edgewise.layers.MultiHeadAttention, or a "
                "transformers model with separate projections",
            )
    remaining: dict[str, list[int]] = {}
    for name, removed in heads_by_name(model, heads, names).items():
        if name not in layers:
            raise unknown_name("layer", name, layers)
        head_positions(removed, layers[name], name)
        remaining[name] = [head for head in layers[name] if head not in removed]
        if not remaining[name]:
            raise ArgumentError(
                "heads",
                expected=f"at least one remaining head in {name}",
                got=f"all heads, {listed(layers[name])}, to remove",
                remedy=f"keep at least one head of {name}",
            )
    return remaining


def heads_by_name(
    model: Any, heads: Heads, names: Sequence[str] | None = None
) -> dict[str, list[int]]:
    """Return heads by the name of their layer."""
    layers = layer_keys(heads, "heads")
    if names is None and any(isinstance(layer, int) for layer in layers):
        names = _numbered_names(model)
    chosen: dict[str, list[int]] = {}
    for layer, numbers in zip(layers, heads.values(), strict=True):
        name = numbered_layer(layer, names or (), "heads") if isinstance(layer, int) else layer
        chosen.setdefault(name, []).extend(numbers)
    return chosen


def _numbered_names(model: Any) -> list[str]:
    """Return the names of all attention layers in the order of their numbers."""
    if not isinstance(model, nn.Module):
        return recorded_batch(model).modules
    names = list(layers_with_heads(model))
    with_heads = [name for name, layer in model.named_modules() if hasattr(layer, "heads")]
    fixed = [name for name in with_heads if name not in names]
    if names and fixed:
        raise ArgumentError(
            "heads",
            expected=f"names of layers, such as {names[0]!r}, as the heads of {fixed[0]} cannot be "
            "removed, although this layer has a number",
            got="a number of a layer",
            remedy="use names that explain.layers_with_heads(model) lists",
        )
    return names


def least_important(
    importance: Mapping[str, Tensor],
    fraction: float,
    layers: Mapping[str, Sequence[int]],
    *,
    normalise: bool = False,
) -> dict[str, list[int]]:
    """Return the heads with the lowest importance, in the form that :func:`prune` takes.

    The most important head of each layer is never returned, so large fractions may not be reached.

    Args:
        importance: importance ``[H]`` of the heads of each layer; see :func:`importance`.
        fraction: fraction of all heads to return, rounded up.
        layers: heads that can be removed; see :func:`layers_with_heads`.
        normalise: divide by the Euclidean norm in each layer (Michel et al., 2019).

    Example:
        >>> import torch
        >>> from edgewise import explain
        >>> scores = {"a": torch.tensor([1.0, 4.0]), "b": torch.tensor([3.0])}
        >>> explain.least_important(scores, 0.3, {"a": [2, 3], "b": [0]})
        {'a': [2]}
    """
    check_range("fraction", fraction, "choose for example 0.2", least=0, below=1)
    heads = {name: layers[name] for name in importance if name in layers}
    scores = []
    for name, indices in heads.items():
        values = importance[name]
        norm = float(values.norm()) if normalise else 1.0
        ranked = sorted(zip((values / (norm or 1.0)).tolist(), indices, strict=True))
        scores += [(value, name, head) for value, head in ranked[:-1]]
    count = math.ceil(fraction * sum(map(len, heads.values())) - 1e-9)
    chosen: dict[str, list[int]] = {}
    for _, name, head in sorted(scores, key=itemgetter(0))[:count]:
        chosen.setdefault(name, []).append(head)
    return {name: sorted(chosen[name]) for name in heads if name in chosen}


def layers_with_heads(model: Any) -> dict[str, list[int]]:
    """Return the heads that :func:`prune` can remove, as ``{layer name: indices}``.

    Example:
        >>> from edgewise import explain, models
        >>> explain.layers_with_heads(models.bert(100, width=16, depth=1, heads=2, ffn_dim=32))
        {'backbone.stack.layers.0.attention.sublayer': [0, 1]}
    """
    module = model_of(model)
    layers: dict[str, Any] = dict(module.named_modules())
    counts = {name: layers[name].heads for name in prunable_layers(module)}
    if any(type(layer).__module__.startswith("transformers.") for layer in layers.values()):
        # Imported only for such models, because the import adds an attention to transformers.
        from edgewise.interop.huggingface.pruning import head_counts

        counts |= head_counts(module)
    heads = {}
    for name, layer in layers.items():
        if name in counts:
            kept_heads = getattr(layer, "kept_heads", None)
            heads[name] = list(range(counts[name]) if kept_heads is None else kept_heads)
    return heads


def _keep(model: nn.Module, heads_by_layer: Mapping[str, Sequence[int]]) -> None:
    """Remove all but these heads from the named layers, in place."""
    native = set(prunable_layers(model))
    keep_heads(model, {name: heads_by_layer[name] for name in heads_by_layer if name in native})
    hugging_face = {name: heads_by_layer[name] for name in heads_by_layer if name not in native}
    if hugging_face:
        from edgewise.interop.huggingface import pruning

        pruning.keep_heads(model, hugging_face)
