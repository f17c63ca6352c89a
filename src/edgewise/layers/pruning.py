"""Removal of attention heads: their rows and columns are removed from the weight matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, unknown_name
from edgewise.attention.biases import OffsetBias, Projected, TableBias


def keep_heads(model: nn.Module, heads_of_layers: Mapping[str, Sequence[int]]) -> None:
    """Keep only these attention heads of a model, in place, in the numbering of unpruned layers."""
    modules = dict(model.named_modules())
    for name, heads in heads_of_layers.items():
        if name not in modules:
            raise unknown_name("layer", name, prunable_layers(model))
        layer = modules[name]
        if not getattr(layer, "can_keep_heads", False):
            prunable = ", ".join(prunable_layers(model))
            raise ArgumentError(
                "layer",
                expected=f"a layer whose heads can be removed: {prunable or 'none in this model'}",
                got=f"{name}, a {type(layer).__name__}, whose heads cannot be removed",
                remedy="choose from the expected layers"
                if prunable
                else "use a model with layers of type edgewise.layers.MultiHeadAttention",
            )
        layer.keep_heads(heads)


def prunable_layers(model: nn.Module) -> list[str]:
    """Return the names of the layers whose heads can be removed."""
    return [
        name for name, module in model.named_modules() if getattr(module, "can_keep_heads", False)
    ]


def kept_heads(model: nn.Module) -> dict[str, list[int]]:
    """Return the remaining heads of each pruned layer, in the numbering of the unpruned layer."""
    return {
        name: list(module.kept_heads)
        for name, module in model.named_modules()
        if getattr(module, "kept_heads", None) is not None
    }


def kept_groups(remaining: Sequence[int], heads: int, key_heads: int, name: str) -> list[int]:
    """Return the key heads of the remaining query heads, which must be equally many for each."""
    group = heads // key_heads
    counts = [sum(1 for head in remaining if head // group == key) for key in range(key_heads)]
    if len({count for count in counts if count}) > 1:
        raise ArgumentError(
            "heads",
            expected=f"equal numbers of heads left in all groups of {group} heads that share a key "
            f"in {name}",
            got=f"groups with {', '.join(map(str, counts))} heads left",
            remedy="remove whole groups, or the same number of heads from each group",
        )
    return [key for key, count in enumerate(counts) if count]


def rows_of_heads(heads: Sequence[int], width: int) -> Tensor:
    """Return the row indices of the given heads in a weight matrix with ``width`` rows per head."""
    first = torch.tensor(list(heads), dtype=torch.long) * width
    return (first[:, None] + torch.arange(width)).flatten()


def select(parameter: Any, index: Tensor, dim: int = 0) -> Any:
    """Return a parameter with only the indices ``index`` of dimension ``dim``; None for None."""
    if parameter is None:
        return None
    selected = parameter.detach().index_select(dim, index.to(parameter.device))
    return nn.Parameter(selected, requires_grad=parameter.requires_grad)


def term_of_heads(term: Any, heads: Sequence[int], dim: int) -> Any:
    """Select heads of an edge term, a tensor or table with heads in the negative dimension."""
    if isinstance(term, Projected):
        return replace(term, weight=term.weight[list(heads)])
    if isinstance(term, OffsetBias):
        return OffsetBias(term.offsets, term.table[:, list(heads)])
    if isinstance(term, TableBias):
        return TableBias(term.index, term.table[:, list(heads)])
    if term is None or term.shape[dim] == 1:
        return term
    return term.index_select(term.dim() + dim, torch.tensor(list(heads), device=term.device))
