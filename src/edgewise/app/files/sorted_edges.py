"""Edges sorted by target on disk, for graphs that do not fit in memory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from torch import Tensor

from edgewise._utils.errors import MissingDataError, reading, require
from edgewise._utils.writing import temporary_folder
from edgewise.app.files.edges import DESTINATION, SOURCE
from edgewise.app.files.files import unreadable
from edgewise.app.files.frames import pandas_for
from edgewise.engines.native.sampling import SortedGraph

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")

EDGE_FILES = ("edge_index.npy", "edges.parquet", "edges.csv")
"""Names of the file of edges in a folder; the last two have a source and a target column."""
CHUNK = 1_000_000
"""Number of edges that are read at a time."""
BUCKETS = 64
"""Number of ranges of targets; the edges into one range are sorted in memory."""
RECORD = "source.json"
"""File of a sorted graph that names the file of edges, its size and time of change."""


def memory_map(path: Path) -> Tensor:
    """Return the array of an ``.npy`` file as a tensor that is read from disk when it is used."""
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file. Remedy: save this array with numpy.save.")
    with reading(path, expected="an array of numbers saved by numpy.save"):
        return _as_tensor(np.load(path, mmap_mode="r", allow_pickle=False))


def sorted_edges(folder: Path, num_nodes: int, *, directed: bool) -> SortedGraph:
    """Return the distinct edges of a folder without self-loops, sorted by target, from files.

    The first call sorts them into a subfolder, in memory for ``CHUNK`` edges and one of ``BUCKETS``
    ranges of targets, with a progress bar. Later calls open this subfolder, unless the file of
    edges has changed. Without ``directed``, each edge also has its reverse.
    """
    path = next((folder / name for name in EDGE_FILES if (folder / name).is_file()), None)
    if path is None:
        raise MissingDataError(
            f"{folder}: none of the files {', '.join(EDGE_FILES)}. Remedy: save the edges, numbers "
            "of nodes from 0, as an array [2, E] by numpy.save, or as a table of two columns."
        )
    status = path.stat()
    source = {
        "file": path.name,
        "size": status.st_size,
        "modified": status.st_mtime_ns,
        "nodes": num_nodes,
    }
    output = folder / ("sorted_directed" if directed else "sorted")
    if not _is_made_from(output, source):
        with temporary_folder(folder) as temporary:
            _sort(path, num_nodes, temporary, directed=directed)
            (temporary / RECORD).write_text(json.dumps(source), encoding="utf-8")
            _replace(temporary, output)
    pointer = memory_map(output / "pointer.npy")
    column = (
        np.memmap(output / "column.bin", np.int32, "r")
        if int(pointer[-1])
        else np.empty(0, np.int32)
    )
    return SortedGraph(pointer, _as_tensor(column))


def _is_made_from(output: Path, source: dict[str, object]) -> bool:
    """Return whether a folder has all sorted edges of a file; a copied folder may be cut short."""
    with suppress(OSError, ValueError, EOFError):
        if json.loads((output / RECORD).read_text(encoding="utf-8")) == source:
            pointer = np.load(output / "pointer.npy", mmap_mode="r")
            size = (output / "column.bin").stat().st_size
            return size == int(pointer[-1]) * np.dtype(np.int32).itemsize
    return False


def _replace(temporary: Path, output: Path) -> None:
    output.mkdir(exist_ok=True)
    (output / RECORD).unlink(missing_ok=True)
    for name in ("pointer.npy", "column.bin", RECORD):  # The last file says that all are there.
        (temporary / name).replace(output / name)


def _sort(path: Path, num_nodes: int, temporary: Path, *, directed: bool) -> None:
    width = max(1, -(-num_nodes // BUCKETS))
    buckets = [temporary / f"{number}.edges" for number in range(-(-num_nodes // width))]
    files = [temporary_bucket.open("ab") for temporary_bucket in buckets]
    try:
        for source, target in _chunks(path):
            _check_nodes(path, source, target, num_nodes)
            pairs = [(source, target)] if directed else [(source, target), (target, source)]
            for start, end in pairs:
                is_edge = start != end  # Not a self-loop.
                edges = np.stack([end[is_edge], start[is_edge]], axis=1).astype(np.int32)
                bucket = edges[:, 0] // width
                edges = edges[bucket.argsort(kind="stable")]
                ends = np.bincount(bucket, minlength=len(files)).cumsum()
                for file, rows in zip(files, np.split(edges, ends[:-1]), strict=True):
                    rows.tofile(file)
    finally:
        for file in files:
            file.close()
    pointer = open_memmap(temporary / "pointer.npy", "w+", np.int64, (num_nodes + 1,))
    pointer[0] = 0
    with (temporary / "column.bin").open("wb") as column:
        for number, bucket_path in enumerate(_shown(buckets, "sorting edges")):
            first = number * width
            stop = min(first + width, num_nodes)
            edges = np.fromfile(bucket_path, np.int32).reshape(-1, 2)
            bucket_path.unlink()
            key = np.unique(edges[:, 0].astype(np.int64) * num_nodes + edges[:, 1])
            (key % num_nodes).astype(np.int32).tofile(column)
            degree = np.bincount(key // num_nodes - first, minlength=stop - first)
            pointer[first + 1 : stop + 1] = pointer[first] + degree.cumsum()
    pointer.flush()


def _chunks(path: Path) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield sources and targets of at most ``CHUNK`` edges at a time, with a progress bar."""
    if path.suffix == ".npy":
        array = memory_map(path)
        if array.dim() != 2 or len(array) != 2 or array.is_floating_point():
            raise unreadable(
                path,
                expected="integers of shape [2, E]: sources and targets",
                got=f"{array.dtype} of shape {list(array.shape)}",
                remedy="save edge_index as an integer array [2, E]",
            )
        starts = range(0, array.shape[1], CHUNK)
        for start in _shown(starts, "reading edges"):
            source, target = array[:, start : start + CHUNK].numpy().astype(np.int64)
            yield source, target
        return
    expected = "two columns of integers, such as source and target"
    with reading(path, expected=expected):
        if path.suffix == ".parquet":
            parquet = require("pyarrow.parquet", extra="tables", purpose="reading edges")
            table = parquet.ParquetFile(path)
            names = _ends(path, table.schema.names)
            batches = table.iter_batches(CHUNK, columns=names)
            frames: Iterator[DataFrame] = (batch.to_pandas() for batch in batches)
        else:
            pandas = pandas_for("reading edges")
            names = _ends(path, list(pandas.read_csv(path, nrows=0).columns))
            frames = iter(pandas.read_csv(path, chunksize=CHUNK, usecols=names))
        for frame in _shown(frames, "reading edges"):
            values = frame[names].to_numpy()
            if values.dtype.kind not in "iu":
                raise unreadable(path, expected=expected, got=f"{values.dtype} values")
            yield values[:, 0].astype(np.int64), values[:, 1].astype(np.int64)


def _ends(path: Path, names: list[str]) -> list[str]:
    """Return the columns of source and target: those with usual names, or the only two."""
    if all(name.lstrip("-").isdecimal() for name in names):
        raise unreadable(
            path,
            expected="names of the columns in the first line",
            got=", ".join(names),
            remedy="add the line `source,target`",
        )
    usual = {name.lower().replace("_", ""): name for name in names}
    ends = [next(filter(usual.get, role.usual), "") for role in (SOURCE, DESTINATION)]
    if all(ends):
        return [usual[end] for end in ends]
    if len(names) != 2:
        raise unreadable(
            path,
            expected="the columns source and target",
            got=", ".join(names),
            remedy="name these two columns source and target",
        )
    return names


def _check_nodes(
    path: Path, source: NDArray[np.int64], target: NDArray[np.int64], num_nodes: int
) -> None:
    for ends in (source, target):
        is_outside = (ends < 0) | (ends >= num_nodes)
        if is_outside.any():
            raise unreadable(
                path,
                expected=f"nodes from 0 to {num_nodes - 1}, the rows of x.npy",
                got=f"node {ends[is_outside][0]}",
                remedy="number the nodes from 0, in the order of the rows of x.npy",
            )


def _shown(steps: Iterable[T], what: str) -> Iterable[T]:
    """Return an iterable that shows its progress on a terminal."""
    progress: Iterable[T] = require("tqdm", extra="train", purpose=what).tqdm(
        steps, what, disable=None
    )
    return progress


def _as_tensor(array: NDArray[np.generic]) -> Tensor:
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # It is not writable.
        return torch.from_numpy(array)
