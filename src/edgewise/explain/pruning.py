"""Pruning of attention heads: their weights are removed, and the model runs faster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import (
    ArgumentError,
    MissingDataError,
    reading,
    require,
    unknown_name,
)
from edgewise._utils.limits import read_json_object
from edgewise.explain.losses import recorded_batch
from edgewise.explain.module_names import (
    layer_keys,
    listed,
    model_of,
    naming_the_run,
    numbered_layer,
    places_of,
)
from edgewise.layers.pruning import (
    keep_heads,
    kept_groups,
    kept_heads,
    prunable_layers,
    rows_of_heads,
    select,
)

M = TypeVar("M")
Heads = (
    Mapping[str, Iterable[int]] | Mapping[int, Iterable[int]] | Mapping[str | int, Iterable[int]]
)
"""Numbers of heads by name or number of the layer; a union, as Mapping is invariant in its key."""
FORMS: tuple[tuple[str, str, str, str], ...] = (
    ("query", "key", "value", "output.dense"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("q_lin", "k_lin", "v_lin", "out_lin"),
    ("c_attn", "c_attn", "c_attn", "c_proj"),
)
"""Module names of the query, key, value and output projections in attention layers of
``transformers``, one tuple for each naming scheme."""
HEAD_COUNTS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
KEY_COUNTS = ("num_key_value_heads", "num_kv_heads")
WIDTHS = ("all_head_size", "split_size")
CONFIG = "edgewise_kept_heads"
"""Field that is added to a ``transformers`` configuration: the remaining heads of each layer."""


def prune(model: M, heads: Heads) -> M:
    """Remove attention heads from a model, in place.

    The rows of the query, key and value projections and the columns of the output projection are
    removed. The outputs are those of the model with these heads multiplied by 0.

    Args:
        model: a model with layers of :class:`edgewise.layers.MultiHeadAttention`, a
            ``transformers`` model (BERT, RoBERTa, DistilBERT, ViT, GPT-2, Llama, BART and others
            with the same projections), or a run of :func:`edgewise.load`.
        heads: heads to remove from each layer, as ``{layer: numbers}``. A layer is a name, or a
            number: in a run that of `edgewise heads`, in a model the position in
            :func:`layers_with_heads`. Heads keep the numbers that they had before any pruning.

    Returns:
        The model.

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
    keep(model_of(model), remaining_heads(model, heads))
    return model


def remaining_heads(
    model: Any, heads: Heads, names: Sequence[str] | None = None
) -> dict[str, list[int]]:
    """Return the heads that :func:`prune` would keep in the layers of ``heads``, by layer name.

    Args:
        model: a model or run.
        heads: heads to remove, by name or number of the layer.
        names: names of all layers in the order of their numbers, if they are known.

    Raises:
        ArgumentError: see :func:`prune`.
    """
    layers = layers_with_heads(model)
    with naming_the_run(
        model,
        "a run whose model has heads that can be removed",
        "choose a run of a Transformer, such as bert or vit",
    ):
        _check_any(layers, model_of(model))
    kept: dict[str, list[int]] = {}
    for name, removed in heads_by_name(model, heads, names).items():
        if name not in layers:
            raise unknown_name("layer", name, layers)
        left = layers[name]
        places_of(removed, left, name)
        kept[name] = [head for head in left if head not in removed]
        if not kept[name]:
            raise ArgumentError(
                "heads",
                expected=f"at least one remaining head in {name}",
                got=f"all heads, {listed(left)}, to remove",
                remedy=f"keep at least one head of {name}",
            )
    return kept


def heads_by_name(
    model: Any, heads: Heads, names: Sequence[str] | None = None
) -> dict[str, list[int]]:
    """Return heads by the name of their layer; see :func:`remaining_heads`."""
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
        importance: importance ``[H]`` of the heads of each layer, such as the result of
            :func:`importance`.
        fraction: fraction of all heads to return, rounded up to a whole number of heads.
        layers: numbers of the heads of each layer that can be removed, the result of
            :func:`layers_with_heads`.
        normalise: whether to divide the importance by its Euclidean norm in each layer, as Michel
            et al. (2019) do for gradients.

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
    module, found = model_of(model), {}
    own = set(prunable_layers(module))
    for name, layer in module.named_modules():
        if name in own:
            count = layer.heads
        elif form := _form_of(layer, name, module):
            count = _count(layer, form[-1])
        else:
            continue
        left = getattr(layer, "kept_heads", None)
        found[name] = list(range(count)) if left is None else list(left)
    return found


def keep(model: nn.Module, kept: Mapping[str, Sequence[int]]) -> None:
    """Remove all but some heads from layers, in place.

    Args:
        model: the model.
        kept: numbers of the heads to keep, by name of the layer. Other layers are not changed.
    """
    own = set(prunable_layers(model))
    keep_heads(model, {name: heads for name, heads in kept.items() if name in own})
    modules = dict(model.named_modules())
    for name, heads in kept.items():
        if name not in own:
            _keep_theirs(model, name, modules[name], list(heads))
    config = getattr(model, "config", None)
    if config is not None and hasattr(config, "to_dict"):
        setattr(config, CONFIG, kept_heads(model))


def _check_any(layers: Mapping[str, Any], model: nn.Module) -> None:
    """Raise ArgumentError if a model has no layers with heads."""
    if not layers:
        raise ArgumentError(
            "model",
            expected="a model with layers whose heads can be removed",
            got=f"{type(model).__name__}, which has no such layer",
            remedy="prune a Transformer with edgewise.layers.MultiHeadAttention, or a transformers "
            "model with separate projections",
        )


def _get(module: nn.Module, names: Sequence[str]) -> Any:
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _form_of(layer: nn.Module, name: str, model: nn.Module) -> list[nn.Module] | None:
    """Return the query, key, value and output projections of a ``transformers`` layer.

    Args:
        layer: module of the model.
        name: name of this module in the model.
        model: the model.

    Returns:
        ``None`` if the module is not such a layer, or its heads cannot be removed.
    """
    if not type(layer).__module__.startswith("transformers."):
        return None
    if _get(layer, (*HEAD_COUNTS, "head_dim")) is None:
        return None
    if getattr(layer, "is_cross_attention", False) and hasattr(layer, "c_attn"):
        return None
    for *inputs, output in FORMS:
        if not all(isinstance(getattr(layer, one, None), nn.Module) for one in inputs):
            continue
        owner: Any = layer
        if "." in output:  # In BERT, the output projection is in the parent of the layer.
            owner = model.get_submodule(name.rpartition(".")[0])
        try:
            last = owner.get_submodule(output)
        except AttributeError:
            continue
        return [*(getattr(layer, one) for one in inputs), last]
    return None


def _keep_theirs(model: nn.Module, name: str, layer: Any, heads: list[int]) -> None:
    """Remove all but some heads from a layer of ``transformers``, in place.

    Args:
        model: the model.
        name: name of the layer in the model.
        layer: the layer.
        heads: numbers of the heads to keep, before any pruning.
    """
    query, key, value, output = _form_of(layer, name, model) or []
    count = _count(layer, output)
    known = list(getattr(layer, "kept_heads", range(count)))
    places = [known.index(head) for head in heads]
    joint = query is key
    width = _columns(output) // count
    key_heads = count if joint else _rows(key) // width
    groups = kept_groups(places, count, key_heads, name)
    queries, keys = rows_of_heads(places, width), rows_of_heads(groups, width)
    if joint:
        parts = [queries + part * count * width for part in range(3)]
        _keep_rows(query, torch.cat(parts))
    else:
        for linear, rows in ((query, queries), (key, keys), (value, keys)):
            _keep_rows(linear, rows)
    _keep_columns(output, queries)
    for names, number in ((HEAD_COUNTS, len(places)), (KEY_COUNTS, len(groups))):
        for one in names:
            if hasattr(layer, one):
                setattr(layer, one, number)
    if hasattr(layer, "num_key_value_groups"):
        layer.num_key_value_groups = len(places) // len(groups)
    for one in WIDTHS:
        if hasattr(layer, one):
            setattr(layer, one, len(queries))
    layer.kept_heads = heads


def _count(layer: nn.Module, output: nn.Module) -> int:
    """Return the number of heads of a ``transformers`` layer.

    Args:
        layer: the layer.
        output: its output projection, from whose size the number is computed if the layer does not
            store it (Llama).
    """
    count = _get(layer, HEAD_COUNTS)
    return _columns(output) // int(_get(layer, ("head_dim",))) if count is None else int(count)


def _is_transposed(linear: nn.Module) -> bool:
    """Return whether the weight is ``[in, out]``, as in the Conv1D of GPT-2."""
    return type(linear).__name__ == "Conv1D"


def _rows(linear: Any) -> int:
    return int(linear.weight.shape[1 if _is_transposed(linear) else 0])


def _columns(linear: Any) -> int:
    return int(linear.weight.shape[0 if _is_transposed(linear) else 1])


def _keep_rows(linear: Any, rows: torch.Tensor) -> None:
    linear.weight = select(linear.weight, rows, 1 if _is_transposed(linear) else 0)
    linear.bias = select(linear.bias, rows)
    setattr(linear, "nf" if _is_transposed(linear) else "out_features", len(rows))


def _keep_columns(linear: Any, columns: torch.Tensor) -> None:
    linear.weight = select(linear.weight, columns, 0 if _is_transposed(linear) else 1)
    setattr(linear, "nx" if _is_transposed(linear) else "in_features", len(columns))


def load_pruned(kind: Any, folder: str | Path) -> Any:
    """Load a pruned ``transformers`` model that ``save_pretrained`` has written.

    Args:
        kind: class of the model, such as ``transformers.BertModel``.
        folder: folder with ``config.json`` and ``model.safetensors``.

    Returns:
        The model in evaluation mode. Models that were not pruned are loaded, too.

    Raises:
        MissingDataError: the folder has no ``config.json`` or no ``model.safetensors``.
    """
    require("safetensors", extra="train", purpose="loading a pruned model")
    from safetensors.torch import load_model

    folder = Path(folder)
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise MissingDataError(
                f"{folder} has no {name}. Remedy: give a folder that save_pretrained wrote."
            )
    with reading(folder / "config.json", expected="a configuration as JSON"):
        kept = read_json_object(folder / "config.json").get(CONFIG, {})
    model = kind(kind.config_class.from_pretrained(folder))
    keep(model, kept)
    load_model(model, folder / "model.safetensors")
    return model.eval()
