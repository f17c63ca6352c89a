"""Properties of the training data that a run folder stores: sizes, labels, ids and scaling."""

from __future__ import annotations

import json
import math
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.targets import Target
from edgewise.app.train.folder import (
    PREPROCESSING,
    PREPROCESSING_TENSORS,
    RunFolder,
    finite,
)
from edgewise.app.train.recipe import Recipe
from edgewise.app.train.splits import Splits, TargetScale


@dataclass(frozen=True)
class Preprocessing:
    """Properties of the training data that predictions need; see :class:`Splits`."""

    model_arguments: dict[str, Any]
    target_scale: TargetScale | None
    values: dict[str, Any]
    train_examples: int = 0

    @property
    def targets(self) -> tuple[Target, ...]:
        """Descriptions of the target columns; empty if there are none."""
        return tuple(map(Target.read, self.values.get("targets", ())))


def preprocessing_of(splits: Splits) -> Preprocessing:
    """Return the properties of a loaded data set that predictions need."""
    train, values = splits.train, splits.preprocessing
    if splits.targets:
        values = {**values, "targets": [target._asdict() for target in splits.targets]}
    return Preprocessing(splits.model_arguments, train.target_scale, values, train.count)


def keep_preprocessing(folder: RunFolder, splits: Splits) -> None:
    """Write the properties of the data that predictions need to a run folder."""
    record, tensors = _record(splits)
    digest = folder.write_tensors(PREPROCESSING_TENSORS, tensors) if tensors else None
    folder.write_json(PREPROCESSING, {**record, "digest": digest})


def _record(splits: Splits) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the properties of the data as JSON values, and those that are tensors."""
    preprocessing = preprocessing_of(splits)
    tensors = {name: v for name, v in preprocessing.values.items() if isinstance(v, Tensor)}
    return {
        "model_arguments": preprocessing.model_arguments,
        "target_scale": preprocessing.target_scale,
        "values": {name: v for name, v in preprocessing.values.items() if name not in tensors},
        "tensors": sorted(tensors),
        "train_examples": preprocessing.train_examples,
    }, tensors


def check_same_preprocessing(folder: RunFolder, splits: Splits) -> None:
    """Raise ArgumentError unless the data have the properties that the run folder stores: ids,
    names of classes, scales, and the graph of a run on one graph. Numbers may differ by rounding.
    The target of each example and the rows of other tables are not compared.
    """
    if not folder.has(PREPROCESSING):
        return
    before, (now, tensors) = folder.read_json(PREPROCESSING), _record(splits)
    stored = folder.read_tensors(PREPROCESSING_TENSORS, before["digest"]) if tensors else {}
    now = json.loads(json.dumps(finite(now)))
    compared = {name: (before["values"].get(name), value) for name, value in now["values"].items()}
    compared |= {name: (stored.get(name), value) for name, value in tensors.items()}
    compared |= {name: (before[name], now[name]) for name in ("model_arguments", "target_scale")}
    for name, (value, new_value) in compared.items():
        if not _are_same(value, new_value):
            raise ArgumentError(
                "--resume",
                expected=f"the data of the run in {folder.path}",
                got=f"data with another value of {name!r}",
                remedy="restore the files of the run, or start a new run with --out",
            )


def _are_same(value: Any, other: Any) -> bool:
    """Return whether tensors or JSON values are equal, floating-point numbers up to rounding."""
    if isinstance(value, Tensor) and isinstance(other, Tensor):
        if value.shape != other.shape or value.dtype != other.dtype:
            return False
        if not value.is_floating_point():
            return value.equal(other)
        return value.allclose(other, rtol=1e-4, atol=1e-6, equal_nan=True)
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_are_same(value[k], other[k]) for k in value)
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_are_same, value, other))
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-4, abs_tol=1e-6)
    return bool(value == other)


def load_preprocessing(folder: RunFolder) -> Preprocessing:
    """Read the files that :func:`keep_preprocessing` wrote."""
    if not folder.has(PREPROCESSING):
        raise MissingDataError(
            f"{folder.path / PREPROCESSING}: no such file. Predictions need this file. Remedy: "
            "restore the file, or train again with this version of Edgewise."
        )
    record = folder.read_json(PREPROCESSING)
    try:
        # JSON has lists in place of tuples, such as (height, width).
        sizes = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in record["model_arguments"].items()
        }
        scale, values, names = record["target_scale"], record["values"], record["tensors"]
        # The digest shows that the tensors belong to the ids in the JSON file.
        tensors = folder.read_tensors(PREPROCESSING_TENSORS, record["digest"]) if names else {}
        values = _RunValues(folder.path, {**values, **{name: tensors[name] for name in names}})
        count = record["train_examples"]
        scale = None if scale is None else TargetScale(*scale)
        preprocessing = Preprocessing(sizes, scale, values, count)
        _check_types(folder.path, preprocessing)
    except (KeyError, TypeError, AttributeError) as error:
        raise _lacking(folder.path, str(error)) from error
    return preprocessing


def _check_types(path: Path, preprocessing: Preprocessing) -> None:
    """Raise ArgumentError if a value has another type than :func:`keep_preprocessing` writes."""
    scale, values = preprocessing.target_scale, preprocessing.values
    sizes = {f"model_arguments.{name}": x for name, x in preprocessing.model_arguments.items()}
    wrong = {name: size for name, size in sizes.items() if not _is_size(size)}
    if scale is not None and not (_are_numbers(scale.mean) and _are_numbers(scale.std)):
        wrong["target_scale"] = list(scale)
    if not _is_size(preprocessing.train_examples):
        wrong["train_examples"] = preprocessing.train_examples
    wrong |= {name: values[name] for name in NAME_LISTS if not _are_names(values.get(name, []))}
    wrong |= {name: values[name] for name in NAMES if not isinstance(values.get(name, ""), str)}
    for target in preprocessing.targets:
        if not (_are_names((target.name, *target.classes)) and _are_numbers(target[2:4])):
            wrong["targets"] = target
    num_labels = len(values.get("labels", ()))
    if num_labels and preprocessing.model_arguments.get("out_width", num_labels) != num_labels:
        wrong["labels"] = wrong.get("labels", values["labels"])
    for name, value in wrong.items():
        raise ArgumentError(
            str(path / PREPROCESSING),
            expected=f"a value of {name} that `edgewise train` wrote",
            got=reprlib.repr(value),
            remedy="restore the file, or train again",
        )


NAME_LISTS = ("labels", "ids", "users", "items", "columns", "features")
"""Values that are lists of names."""
NAMES = ("column", "smiles", "text")
"""Values that are names."""


def _is_size(value: Any) -> bool:
    """Return whether a value is a size, such as a number of classes, or a tuple of sizes."""
    if isinstance(value, tuple):
        return all(map(_is_size, value))
    return value is None or (isinstance(value, int) and value >= 0)


def _are_numbers(value: Any) -> bool:
    values = value if isinstance(value, (list, tuple)) else [value]
    return all(isinstance(number, (int, float)) and math.isfinite(number) for number in values)


def _are_names(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)


def kept_preprocessing(folder: RunFolder) -> Preprocessing | None:
    """Return the result of :func:`load_preprocessing`; None if the folder has no such file."""
    return load_preprocessing(folder) if folder.has(PREPROCESSING) else None


def with_known_targets(recipe: Recipe, run: Preprocessing | None) -> Recipe:
    """Return a recipe whose task is set to the target columns of the training data."""
    return recipe if run is None else recipe.for_targets(run.targets)


class _RunValues(dict[str, Any]):
    """Dictionary whose error for a missing key names the run folder."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.path = path

    def __missing__(self, name: str) -> Any:
        raise _lacking(self.path, repr(name))


def _lacking(path: Path, what: str) -> ArgumentError:
    return ArgumentError(
        str(path / PREPROCESSING),
        expected="a file that `edgewise train` wrote",
        got=f"a file without {what}",
        remedy="restore the file, or train again",
    )
