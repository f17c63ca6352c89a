"""What a run keeps of its data, so that it answers without them: sizes, labels, ids, scalings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from edgewise.data import Splits
from edgewise.data.splits import TargetScale
from edgewise.errors import ArgumentError, MissingDataError
from edgewise.training import RunFolder
from edgewise.training.folder import FITTED, FITTED_TENSORS


@dataclass(frozen=True)
class Fitted:
    """What a run has kept; see :class:`edgewise.data.Splits`.

    Attributes:
        model_arguments: what the data decided about the model.
        target_scale: of the training targets, where the model predicts numbers with a unit.
        values: what was learned from the data and a prediction needs, by name.

    """

    model_arguments: dict[str, Any]
    target_scale: TargetScale | None
    values: dict[str, Any]


def fitted_of(splits: Splits) -> Fitted:
    """What is kept of these data."""
    return Fitted(splits.model_arguments, splits.train.target_scale, splits.fitted)


def keep_fitted(folder: RunFolder, splits: Splits) -> None:
    """Write ``fitted.json``, and ``fitted.safetensors`` where there are tensors."""
    fitted = fitted_of(splits)
    tensors = {name: v for name, v in fitted.values.items() if isinstance(v, Tensor)}
    digest = folder.write_tensors(FITTED_TENSORS, tensors) if tensors else None
    record = {
        "model_arguments": fitted.model_arguments,
        "target_scale": fitted.target_scale,
        "values": {name: v for name, v in fitted.values.items() if name not in tensors},
        "tensors": sorted(tensors),
        "digest": digest,
    }
    folder.write_json(FITTED, record)


def load_fitted(folder: RunFolder) -> Fitted:
    """What :func:`keep_fitted` wrote.

    Raises:
        MissingDataError: the run was trained before runs kept it, or the file was lost.
        ArgumentError: it is damaged, or the tensors are those of another run.

    """
    if not folder.has(FITTED):
        raise MissingDataError(
            f"{folder.path / FITTED}: no such file, so that the run knows too little of its data "
            "to answer. Remedy: restore it, or train again with this version."
        )
    record = folder.read_json(FITTED)
    try:
        sizes = {name: _as_given(value) for name, value in record["model_arguments"].items()}
        scale, values, names = record["target_scale"], record["values"], record["tensors"]
        # Ids in the one file number rows of the other; older runs have no digest of it.
        tensors = folder.read_tensors(FITTED_TENSORS, record.get("digest")) if names else {}
        values = _Kept(folder.path, {**values, **{name: tensors[name] for name in names}})
        return Fitted(sizes, None if scale is None else TargetScale(*scale), values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            str(folder.path / FITTED),
            expected="what `edgewise train` keeps of the data",
            got=f"one without {error}",
            remedy="restore it, or train again",
        ) from error


class _Kept(dict[str, Any]):
    """Values of a run, which names its folder where an older or damaged one lacks some."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise ArgumentError(
            str(self.path / FITTED),
            expected="what `edgewise train` keeps of the data",
            got=f"one without {name!r}",
            remedy="restore it, or train again",
        )


def _as_given(value: Any) -> Any:
    """JSON has no tuples, and a height and width are one."""
    return tuple(value) if isinstance(value, list) else value
