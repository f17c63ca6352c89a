"""Removal of attention heads from ``transformers`` models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from edgewise._utils.errors import MissingDataError, reading, require
from edgewise._utils.limits import read_json_object
from edgewise.layers.pruning import kept_groups, kept_heads, rows_of_heads, select

PROJECTIONS = (
    ("query", "key", "value", "output.dense"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj", "out_proj"),
    ("q_lin", "k_lin", "v_lin", "out_lin"),
    ("c_attn", "c_attn", "c_attn", "c_proj"),
)
"""Names of the query, key, value and output projections, for each naming scheme."""
HEAD_COUNTS = ("num_attention_heads", "num_heads", "n_heads", "n_head")
KEY_COUNTS = ("num_key_value_heads", "num_kv_heads")
WIDTHS = ("all_head_size", "split_size")
CONFIG = "edgewise_kept_heads"
"""Field that is added to the configuration: the remaining heads of each layer."""


class _Projections(NamedTuple):
    query: Any
    key: Any
    value: Any
    output: Any


def head_counts(model: nn.Module) -> dict[str, int]:
    """Return the number of heads of each layer whose heads can be removed, by layer name."""
    return {
        name: _head_count(layer, projections.output)
        for name, layer in model.named_modules()
        if (projections := _projections(model, name, layer))
    }


def keep_heads(model: nn.Module, heads_by_layer: Mapping[str, Sequence[int]]) -> None:
    """Remove all but some heads of some layers, in place, and list them in the configuration."""
    for name, heads in heads_by_layer.items():
        _keep_heads_of_layer(model, name, list(heads))
    config = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        setattr(config, CONFIG, kept_heads(model))


def load_pruned(kind: Any, folder: str | Path) -> Any:
    """Load a ``transformers`` model of class ``kind``, pruned or not, in evaluation mode.

    ``folder`` is one that ``save_pretrained`` has written, with safetensors.

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
        heads_by_layer = read_json_object(folder / "config.json").get(CONFIG, {})
    model = kind(kind.config_class.from_pretrained(folder))
    keep_heads(model, heads_by_layer)
    load_model(model, folder / "model.safetensors")
    return model.eval()


def _projections(model: nn.Module, name: str, layer: nn.Module) -> _Projections | None:
    """Return the projections of an attention layer; None for any other module of the model."""
    if not type(layer).__module__.startswith("transformers."):
        return None
    if _first_attribute(layer, (*HEAD_COUNTS, "head_dim")) is None:
        return None
    if getattr(layer, "is_cross_attention", False) and hasattr(layer, "c_attn"):
        return None
    for *input_names, output_name in PROJECTIONS:
        query, key, value = (getattr(layer, input_name, None) for input_name in input_names)
        if not all(isinstance(projection, nn.Module) for projection in (query, key, value)):
            continue
        # In BERT, the output projection is in the parent of the layer.
        owner = model.get_submodule(name.rpartition(".")[0]) if "." in output_name else layer
        try:
            return _Projections(query, key, value, owner.get_submodule(output_name))
        except AttributeError:
            continue
    return None


def _keep_heads_of_layer(model: nn.Module, name: str, heads: list[int]) -> None:
    layer: Any = model.get_submodule(name)
    projections = _projections(model, name, layer)
    assert projections is not None
    query, key, value, output = projections
    count = _head_count(layer, output)
    current_heads = list(getattr(layer, "kept_heads", range(count)))
    positions = [current_heads.index(head) for head in heads]
    is_joint = query is key
    head_width = _in_features(output) // count
    key_count = count if is_joint else _out_features(key) // head_width
    groups = kept_groups(positions, count, key_count, name)
    query_rows, key_rows = rows_of_heads(positions, head_width), rows_of_heads(groups, head_width)
    if is_joint:
        _keep_rows(query, torch.cat([query_rows + i * count * head_width for i in range(3)]))
    else:
        for linear, rows in ((query, query_rows), (key, key_rows), (value, key_rows)):
            _keep_rows(linear, rows)
    _keep_columns(output, query_rows)
    sizes = [(HEAD_COUNTS, len(positions)), (KEY_COUNTS, len(groups)), (WIDTHS, len(query_rows))]
    for attributes, size in sizes:
        for attribute in attributes:
            if hasattr(layer, attribute):
                setattr(layer, attribute, size)
    if hasattr(layer, "num_key_value_groups"):
        layer.num_key_value_groups = len(positions) // len(groups)
    layer.kept_heads = heads


def _head_count(layer: nn.Module, output: nn.Module) -> int:
    count = _first_attribute(layer, HEAD_COUNTS)
    if count is None:  # Llama stores only the width of a head.
        count = _in_features(output) // _first_attribute(layer, ("head_dim",))
    return int(count)


def _first_attribute(module: nn.Module, names: Sequence[str]) -> Any:
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def _is_transposed(linear: nn.Module) -> bool:
    """Return whether the weight is ``[in, out]``, as in the Conv1D of GPT-2."""
    return type(linear).__name__ == "Conv1D"


def _out_features(linear: Any) -> int:
    return int(linear.weight.shape[1 if _is_transposed(linear) else 0])


def _in_features(linear: Any) -> int:
    return int(linear.weight.shape[0 if _is_transposed(linear) else 1])


def _keep_rows(linear: Any, rows: torch.Tensor) -> None:
    linear.weight = select(linear.weight, rows, 1 if _is_transposed(linear) else 0)
    linear.bias = select(linear.bias, rows)
    setattr(linear, "nf" if _is_transposed(linear) else "out_features", len(rows))


def _keep_columns(linear: Any, columns: torch.Tensor) -> None:
    linear.weight = select(linear.weight, columns, 0 if _is_transposed(linear) else 1)
    setattr(linear, "nx" if _is_transposed(linear) else "in_features", len(columns))
