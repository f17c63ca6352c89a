"""File with a run's outputs on validation and test set, for intervals and ensemble metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.targets import Target, mean_prediction
from edgewise.app.train.folder import RunFolder
from edgewise.app.train.preprocessing import load_preprocessing
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Split, Splits

HELD_OUT = "held_out.safetensors"


class HeldOut(NamedTuple):
    """Outputs ``[examples, sum of target widths]`` and targets ``[examples, targets]``."""

    outputs: Tensor
    target: Tensor


def keep_held_out(folder: RunFolder, model: nn.Module, splits: Splits) -> None:
    """Write the outputs on the validation and test sets, if the data describe their targets."""
    if splits.targets:
        folder.write_tensors(HELD_OUT, held_out(model, splits))


@torch.no_grad()
def held_out(model: nn.Module, splits: Splits) -> dict[str, Tensor]:
    """Return the model's outputs on the validation and test sets, and the targets."""
    model.eval()
    tensors: dict[str, Tensor] = {}
    for name, split in (("val", splits.val), ("test", splits.test)):
        outputs, target = _outputs(model, split, splits.batch_size)
        tensors |= {f"{name}_outputs": outputs, f"{name}_target": target}
    return tensors


def _outputs(model: nn.Module, split: Split, batch_size: int) -> tuple[Tensor, Tensor]:
    batches = []
    device = next(model.parameters()).device
    for loaded in split.loader(batch_size, None):
        batch = loaded.to(device)
        outputs = batch.select_outputs(batch.outputs(model))
        batches.append((outputs.cpu(), batch.target.cpu()))
    outputs, target = (torch.cat(tensors) for tensors in zip(*batches, strict=True))
    return outputs, target


def read_held_out(folders: Sequence[Path], split: str, targets: Sequence[Target]) -> HeldOut:
    """Return the outputs of a run, or the mean prediction of several runs with the same split."""
    for folder in folders:
        if not RunFolder(folder).has(HELD_OUT):
            raise MissingDataError(
                f"{folder / HELD_OUT}: no such file. Intervals need this file. Remedy: prune "
                "where the run's data can be read."
            )
    runs = [RunFolder(folder).read_tensors(HELD_OUT) for folder in folders]
    target = runs[0][f"{split}_target"]
    for run, folder in zip(runs, folders, strict=True):
        if not same_targets(run, runs[0], split):
            raise ArgumentError(
                str(folder / HELD_OUT),
                expected=f"the same rows in the {split} split of all runs",
                got=f"other rows than in the run {folders[0].name}",
                remedy="train all seeds in one command, with --seeds",
            )
    outputs = torch.stack([run[f"{split}_outputs"] for run in runs])
    return HeldOut(mean_prediction(targets, outputs), target)


def same_targets(first: Mapping[str, Tensor], second: Mapping[str, Tensor], split: str) -> bool:
    """Return whether two results of :func:`held_out` have the same targets, in the same order."""
    name = f"{split}_target"
    return torch.equal(first[name].nan_to_num(), second[name].nan_to_num())


def held_out_per_example(recipe: Recipe, folders: Sequence[Path]) -> dict[str, Tensor]:
    """Return the metrics of each test example, ``[N]``, for the mean prediction of several runs."""
    if not _have_outputs(folders):
        return {}
    targets = load_preprocessing(RunFolder(folders[0])).targets
    return recipe.for_targets(targets).task.per_example_metrics(
        *read_held_out(folders, "test", targets)
    )


def _have_outputs(folders: Sequence[Path]) -> bool:
    return len(folders) > 1 and all(RunFolder(folder).has(HELD_OUT) for folder in folders)


def ensemble_metrics(recipe: Recipe, folders: Sequence[Path]) -> dict[str, float]:
    """Return the metrics of the mean prediction of several runs, such as ``test/mae``."""
    if not _have_outputs(folders):
        return {}
    # torchmetrics is an optional dependency.
    from edgewise.app.train.split_metrics import SplitMetrics

    targets = load_preprocessing(RunFolder(folders[0])).targets
    metrics = SplitMetrics(recipe.for_targets(targets).task)
    values_by_name: dict[str, float] = {}
    for split in ("val", "test"):
        metrics.add(*read_held_out(folders, split, targets))
        values_by_name |= {f"{split}/{name}": value for name, value in metrics.finish().items()}
    return values_by_name
