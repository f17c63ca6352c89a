"""Properties of the training data in a run folder: sizes, labels, ids and scaling."""

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
    """Properties of the training data that predictions need; see :class:`edgewise.data.Splits`.

    Attributes:
        model_arguments: arguments of the model that the data determine.
        target_scale: mean and scale of the training targets, for regression in physical units.
        values: preprocessing learned from the data, by name.

    """

    model_arguments: dict[str, Any]
    target_scale: TargetScale | None
    values: dict[str, Any]


def fitted_of(splits: Splits) -> Fitted:
    """Return the properties of these data."""
    return Fitted(splits.model_arguments, splits.train.target_scale, splits.fitted)


def keep_fitted(folder: RunFolder, splits: Splits) -> None:
    """Write ``fitted.json``, and ``fitted.safetensors`` if there are tensors."""
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
    """Read the files of :func:`keep_fitted`.

    Raises:
        MissingDataError: the file was lost, or the run is older than this file.
        ArgumentError: a file is damaged, or the tensors belong to another run.

    """
    if not folder.has(FITTED):
        raise MissingDataError(
            f"{folder.path / FITTED}: no such file, which predictions need. Remedy: restore it, or "
            "train again with this version."
        )
    record = folder.read_json(FITTED)
    try:
        sizes = {name: _as_given(value) for name, value in record["model_arguments"].items()}
        scale, values, names = record["target_scale"], record["values"], record["tensors"]
        # The digest ties the ids in one file to the rows of the other. Older runs have none.
        tensors = folder.read_tensors(FITTED_TENSORS, record.get("digest")) if names else {}
        values = _Kept(folder.path, {**values, **{name: tensors[name] for name in names}})
        return Fitted(sizes, None if scale is None else TargetScale(*scale), values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            str(folder.path / FITTED),
            expected="a file that `edgewise train` wrote",
            got=f"a file without {error}",
            remedy="restore it, or train again",
        ) from error


class _Kept(dict[str, Any]):
    """Dictionary whose error for a missing key names the run folder."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise ArgumentError(
            str(self.path / FITTED),
            expected="a file that `edgewise train` wrote",
            got=f"a file without {name!r}",
            remedy="restore it, or train again",
        )


def _as_given(value: Any) -> Any:
    """Convert a list to a tuple, such as a height and width, because JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value
