"""Copying of checkpoint tensors into a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.layers import JointLinear


@dataclass(frozen=True)
class Source:
    """Source of a tensor of a model: its name in the checkpoint, and a function to apply to it."""

    name: str
    change: Callable[[Tensor], Tensor] = lambda tensor: tensor


def fill(
    model: nn.Module,
    sources: Mapping[str, Source],
    checkpoint: Checkpoint,
    *,
    unused: Iterable[str] = (),
) -> None:
    """Copy the tensors of a checkpoint into a model; ``unused`` names redundant ones."""
    tensors = _tensors(model)
    assert tensors.keys() == sources.keys(), sorted(tensors.keys() ^ sources.keys())
    mismatches, weights = [], {}
    for name, source in sources.items():
        shape = list(tensors[name].shape)
        if source.name not in checkpoint.tensors:
            mismatches.append(f"{source.name}: expected shape {shape}, got nothing")
            continue
        weight = checkpoint.tensors[source.name]
        with suppress(RuntimeError, ValueError, IndexError):  # The shape is wrong; see below.
            weight = source.change(weight)
        if list(weight.shape) != shape:
            mismatches.append(
                f"{source.name} (for {name}): expected shape {shape}, got {list(weight.shape)}"
            )
        weights[name] = weight
    used = {source.name for source in sources.values()}
    extra = [
        name
        for name in checkpoint.tensors
        if name not in used and not any(text in name for text in unused)
    ]
    unexpected = [
        f"{name}: expected nothing, got shape {list(checkpoint.tensors[name].shape)}"
        for name in extra
    ]
    if mismatches:
        raise ArgumentError(
            "model_or_folder",
            expected="weights whose shapes match config.json",
            got="\n  " + "\n  ".join(mismatches + unexpected) + "\n",
            remedy="use the config.json that was saved with the model's weights",
        )
    if extra:
        modules = sorted({name.rpartition(".")[0] or name for name in extra})
        raise ArgumentError(
            "model_or_folder",
            expected="only weights that this model has",
            got="\n  " + "\n  ".join(unexpected) + "\n",
            remedy=f"pass leave_out={modules!r} to ignore these weights",
        )
    model.to(next(iter(weights.values())).dtype)
    with torch.no_grad():
        for name, tensor in _tensors(model).items():
            tensor.copy_(weights[name])


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return all tensors of the model by name; a joint ``qkv`` is split into three views."""
    joint = {name: m for name, m in model.named_modules() if isinstance(m, JointLinear)}
    tensors = {}
    for name, tensor in model.state_dict().items():
        path, _, end = name.rpartition(".")
        if path not in joint:
            tensors[name] = tensor
            continue
        views = zip(("query", "key", "value"), tensor.split(joint[path].widths), strict=True)
        tensors |= {f"{path.removesuffix('qkv')}{role}.{end}": view for role, view in views}
    return tensors


def linear(name: str, hf_name: str, *, bias: bool = True) -> dict[str, Source]:
    """Return the sources of the weight and bias of a linear layer or norm."""
    ends = ("weight", "bias") if bias else ("weight",)
    return {f"{name}.{end}": Source(f"{hf_name}.{end}") for end in ends}
