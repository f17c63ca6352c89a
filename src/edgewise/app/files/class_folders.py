"""Files in folders, and folders with one subfolder per class: files, classes and splits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from edgewise._utils.errors import ArgumentError, MissingDataError
from edgewise.app.files.labels import distinct_labels
from edgewise.app.files.split_column import PART_OF


def visible_files(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """Return the sorted files with these suffixes in a folder and its subfolders, not hidden."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in suffixes
        and path.is_file()
        and not any(name.startswith(".") for name in path.relative_to(folder).parts)
    )


def input_files(path: Path, suffixes: Collection[str], files: str, remedy: str) -> list[Path]:
    """Return a file itself, or the files of a folder, as inputs of a prediction."""
    if not path.is_dir():
        return [path]
    inputs = visible_files(path, suffixes)
    if not inputs:
        raise ArgumentError(
            "input",
            expected=f"a folder with {files} ({', '.join(suffixes)})",
            got=str(path),
            remedy=remedy,
        )
    return inputs


def class_folders(
    folder: Path, find_files: Callable[[Path], list[Path]]
) -> tuple[list[Path], list[str], list[str]]:
    """List the files of all classes, with the class and split of each. The folder has one subfolder
    per class, or ``train`` and optionally ``val`` and ``test``, each with one subfolder per class.
    """
    if not folder.is_dir():
        what = "a file, not a folder" if folder.is_file() else "no such folder"
        raise MissingDataError(
            f"{folder}: {what}. Remedy: give an existing folder with --data.path."
        )
    inner = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    splits = [PART_OF.get(path.name.lower()) for path in inner]
    if "train" not in splits or None in splits:
        classes = [(path, "train") for path in inner]
    else:
        classes = [
            (path, split or "")
            for above, split in zip(inner, splits, strict=True)
            for path in sorted(above.iterdir())
            if path.is_dir()
        ]
    rows = [(file, path.name, split) for path, split in classes for file in find_files(path)]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def class_labels(keys: Sequence[str], splits: Sequence[str], source: str, files: str) -> list[str]:
    """Return the sorted labels of at least two classes, each of which has training files."""
    labels = distinct_labels(keys, "data.path", source)
    if len(labels) < 2:
        raise ArgumentError(
            "data.path",
            expected=f"at least two classes in {source}",
            got=", ".join(map(repr, labels)) or f"no {files} of a class",
            remedy=f"add {files} of another class; in a folder, each class has a folder of its own",
        )
    trained = {key for key, split in zip(keys, splits, strict=True) if split == "train"}
    for key, split in zip(keys, splits, strict=True):
        if key not in trained:
            raise ArgumentError(
                "data.path",
                expected=f"classes of the training {files} ({', '.join(sorted(trained))}) in "
                f"the {split} split",
                got=f"the class {key}",
                remedy=f"rename this class, or add training {files} of it",
            )
    return labels
