"""File with a run's outputs on the validation and test sets, used for prediction intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise.data import Split, Splits
from edgewise.errors import ArgumentError, MissingDataError
from edgewise.training import RunFolder

HELD_OUT = "held_out.safetensors"


class HeldOut(NamedTuple):
    """Model outputs and targets of all examples of a split.

    Attributes:
        outputs: ``[examples, sum of target widths]``.
        target: ``[examples, targets]``.
    """

    outputs: Tensor
    target: Tensor


@torch.no_grad()
def keep_held_out(folder: RunFolder, model: nn.Module, splits: Splits) -> None:
    """Write the model's outputs on the validation and test sets, unless all targets are classes."""
    if all(target.classes for target in splits.targets):
        return
    model.eval()
    tensors: dict[str, Tensor] = {}
    for name, split in (("val", splits.val), ("test", splits.test)):
        outputs, target = _outputs(model, split, splits.batch_size)
        tensors |= {f"{name}_outputs": outputs, f"{name}_target": target}
    folder.write_tensors(HELD_OUT, tensors)


def _outputs(model: nn.Module, split: Split, batch_size: int) -> tuple[Tensor, Tensor]:
    parts = []
    device = next(model.parameters()).device
    for made in split.loader(batch_size, None):
        batch = made.to(device)
        outputs = batch.select_outputs(model(*batch.inputs, **batch.keywords))
        parts.append((outputs.cpu(), batch.target.cpu()))
    outputs, target = (torch.cat(each) for each in zip(*parts, strict=True))
    return outputs, target


def read_held_out(folders: Sequence[Path], split: str) -> HeldOut:
    """Return the outputs of a run, or the mean outputs of several runs with the same split.

    Args:
        folders: run folders.
        split: "val" or "test".

    Raises:
        MissingDataError: a run has no such file, because an earlier version trained it.
        ArgumentError: the examples of the split differ between the runs.
    """
    for folder in folders:
        if not RunFolder(folder).has(HELD_OUT):
            raise MissingDataError(
                f"{folder / HELD_OUT}: no such file. Intervals need this file. Remedy: train "
                "again with this version."
            )
    each = [RunFolder(folder).read_tensors(HELD_OUT) for folder in folders]
    target = each[0][f"{split}_target"]
    for one, folder in zip(each, folders, strict=True):
        if not torch.equal(one[f"{split}_target"].nan_to_num(), target.nan_to_num()):
            raise ArgumentError(
                str(folder / HELD_OUT),
                expected=f"the same rows in the {split} split of all runs",
                got=f"other rows than in the run {folders[0].name}",
                remedy="train all seeds in one command, with --seeds",
            )
    return HeldOut(torch.stack([one[f"{split}_outputs"] for one in each]).mean(0), target)
