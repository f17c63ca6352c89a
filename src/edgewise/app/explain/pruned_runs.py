"""Saving and loading of pruned models."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from edgewise._utils.errors import (
    EdgewiseError,
    MissingDataError,
    reading,
    require,
)
from edgewise._utils.limits import read_json_object
from edgewise.app.train.folder import HEADS, TEST_EXAMPLES, RunFolder
from edgewise.app.train.held_out import HELD_OUT, held_out, same_targets
from edgewise.explain.pruning import CONFIG, keep
from edgewise.layers.pruning import (
    kept_heads,
)


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
    changed = shutil.ignore_patterns(old.weights.name, TEST_EXAMPLES, HELD_OUT)
    shutil.copytree(run.path, folder.path, ignore=changed, dirs_exist_ok=True)
    folder.write_json(HEADS, kept_heads(run.model))
    folder.write_weights({name: x.contiguous() for name, x in run.model.state_dict().items()})
    if outputs:
        folder.write_tensors(HELD_OUT, outputs)
    return folder.path


def _held_out_again(run: Any, old: RunFolder) -> dict[str, Tensor]:
    """Return the outputs of a pruned run on the validation and test rows of its training.

    The result is empty if the data cannot be read, or are no longer the same.
    """
    if not old.has(HELD_OUT):
        return {}
    try:
        outputs = held_out(run.model, run.splits)
    except EdgewiseError:
        return {}
    before = old.read_tensors(HELD_OUT)
    same = all(same_targets(outputs, before, split) for split in ("val", "test"))
    return outputs if same else {}


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
