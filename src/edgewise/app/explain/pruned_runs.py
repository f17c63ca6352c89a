"""Saving of pruned runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from edgewise._utils.errors import EdgewiseError
from edgewise.app.train.folder import HEADS, TEST_EXAMPLES, WEIGHTS, RunFolder
from edgewise.app.train.held_out import HELD_OUT, held_out, same_targets
from edgewise.layers.pruning import kept_heads


def save_pruned(run: Any, path: str | Path) -> Path:
    """Write a pruned run to a new run folder, which :func:`edgewise.load` reads.

    Prediction intervals of the new run are those of the pruned model. They need its outputs on the
    validation and test sets, so the new run has no intervals if the data cannot be read or have
    changed since the training.

    Args:
        run: a run of :func:`edgewise.load` whose model was pruned.
        path: folder that does not exist yet.

    Raises:
        RunExistsError: the folder exists.
    """
    folder = RunFolder(Path(path))
    folder.refuse_existing(resumable=False)
    old = RunFolder(run.path)
    outputs = _held_out_again(run, old)
    changed = shutil.ignore_patterns(WEIGHTS, TEST_EXAMPLES, HELD_OUT)
    shutil.copytree(run.path, folder.path, ignore=changed, dirs_exist_ok=True)
    folder.write_json(HEADS, kept_heads(run.model))
    folder.write_tensors(
        WEIGHTS, {name: x.contiguous() for name, x in run.model.state_dict().items()}
    )
    if outputs:
        folder.write_tensors(HELD_OUT, outputs)
    return folder.path


def _held_out_again(run: Any, old: RunFolder) -> dict[str, Tensor]:
    """Return the outputs on the held-out rows; an empty dict if the data are no longer the same."""
    if not old.has(HELD_OUT):
        return {}
    try:
        outputs = held_out(run.model, run.splits)
    except EdgewiseError:
        return {}
    old_outputs = old.read_tensors(HELD_OUT)
    is_same = all(same_targets(outputs, old_outputs, split) for split in ("val", "test"))
    return outputs if is_same else {}
