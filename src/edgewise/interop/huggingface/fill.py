"""Copying of checkpoint tensors into a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError
from edgewise.interop.huggingface.checkpoint import Checkpoint
from edgewise.layers import JointLinear


@dataclass(frozen=True)
class Piece:
    """Source of a tensor of a model: its name in the checkpoint, and a function to apply to it."""

    name: str
    change: Callable[[Tensor], Tensor] = lambda tensor: tensor


def fill(
    model: nn.Module,
    pieces: Mapping[str, Piece],
    theirs: Checkpoint,
    *,
    unused: Iterable[str] = (),
) -> None:
    """Copy all tensors of a checkpoint into a model, in the dtype of the checkpoint.

    Args:
        model: model to fill.
        pieces: source of each tensor of the model; query, key and value of a joint ``qkv`` have
            separate sources.
        theirs: checkpoint of Hugging Face.
        unused: parts of the names of redundant tensors, such as counts, masks and tied copies.

    Raises:
        ArgumentError: tensors are missing, have other shapes, or have no place in the model. The
            error lists all of them.
    """
    own = _tensors(model)
    assert own.keys() == pieces.keys(), sorted(own.keys() ^ pieces.keys())
    wrong, ready = [], {}
    for name, piece in pieces.items():
        if piece.name not in theirs.tensors:
            wrong.append(f"{piece.name}: expected shape {list(own[name].shape)}, got nothing")
            continue
        raw = theirs.tensors[piece.name]
        try:
            ready[name] = piece.change(raw)
        except (RuntimeError, ValueError, IndexError):
            ready[name] = raw
        if ready[name].shape != own[name].shape:
            wrong.append(
                f"{piece.name} (for {name}): expected shape {list(own[name].shape)}, "
                f"got {list(ready[name].shape)}"
            )
    used = {piece.name for piece in pieces.values()}
    left = [n for n in theirs.tensors if n not in used and not any(part in n for part in unused)]
    strange = [
        f"{name}: expected nothing, got shape {list(theirs.tensors[name].shape)}" for name in left
    ]
    if wrong:
        raise ArgumentError(
            "model_or_folder",
            expected="weights whose shapes match config.json",
            got="\n  " + "\n  ".join(wrong + strange) + "\n",
            remedy="use the config.json that was saved with the model's weights",
        )
    if strange:
        raise ArgumentError(
            "model_or_folder",
            expected="only weights that this model has",
            got="\n  " + "\n  ".join(strange) + "\n",
            remedy=f"pass leave_out={_parts(left)!r} to ignore these weights",
        )
    model.to(next(iter(ready.values())).dtype)
    with torch.no_grad():
        for name, tensor in _tensors(model).items():
            tensor.copy_(ready[name])


def _parts(names: Iterable[str]) -> list[str]:
    """Return the distinct names of the modules to which tensors with these names belong."""
    return sorted({name.rpartition(".")[0] or name for name in names})


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return all tensors of the model by name; a joint ``qkv`` is split into three views.

    Filling the views ``query``, ``key`` and ``value`` fills the joint matrix.
    """
    joint = {name: m for name, m in model.named_modules() if isinstance(m, JointLinear)}
    found = {}
    for name, tensor in model.state_dict().items():
        path, _, end = name.rpartition(".")
        if path not in joint:
            found[name] = tensor
            continue
        parts = zip(("query", "key", "value"), tensor.split(joint[path].widths), strict=True)
        found |= {f"{path.removesuffix('qkv')}{part}.{end}": rows for part, rows in parts}
    return found


def linear(ours: str, theirs: str, *, bias: bool = True) -> dict[str, Piece]:
    """Return a :class:`Piece` for the weight, and one for the bias, of a linear layer or norm."""
    ends = ("weight", "bias") if bias else ("weight",)
    return {f"{ours}.{end}": Piece(f"{theirs}.{end}") for end in ends}
