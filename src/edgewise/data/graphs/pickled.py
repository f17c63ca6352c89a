"""Arrays in pickles that NumPy and SciPy wrote, read without running anything that a pickle names.

A pickle is a program: it names functions and calls them. Here each name that the writers of arrays
use stands for a small class of this file, which keeps what it is given; every other is refused.
NumPy and SciPy see the numbers only after their count and type have been checked.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from edgewise.data.files import unreadable
from edgewise.data.reading import read_bytes

T = TypeVar("T")
TYPES = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "f2", "f4", "f8"])


def read_array(path: Path) -> Tensor:
    """The array of a pickle.

    Raises:
        MissingDataError: there is no such file.
        ArgumentError: it is damaged, or names anything but arrays, lists and dicts.
    """
    return _read(path, lambda found: _as(_Array, found).values())


def read_sparse(path: Path) -> Tensor:
    """The ``csr_matrix`` of a pickle, as a sparse tensor of float32 in coordinate format.

    Raises:
        MissingDataError, ArgumentError: see :func:`read_array`.
    """
    return _read(path, lambda found: _as(_SparseRows, found).coordinates())


def read_lists(path: Path) -> dict[int, list[int]]:
    """The lists of whole numbers of a pickled dict, by their numbers.

    Raises:
        MissingDataError, ArgumentError: see :func:`read_array`.
    """
    return _read(path, _lists)


def _read(path: Path, take: Callable[[object], T]) -> T:
    content = read_bytes(path)
    try:
        for operation, argument, _ in pickletools.genops(content):
            # Room is made for as many objects as the highest number that one is kept under.
            if "PUT" in operation.name and not 0 <= int(argument or 0) <= len(content):
                raise ValueError(f"object {argument} of a file of {len(content)} bytes")
        return take(_Unpickler(io.BytesIO(content), encoding="latin1").load())
    except Exception as error:  # damage may look like any mistake of a program
        expected = "a pickle of arrays, lists and numbers"
        raise unreadable(path, expected=expected, got=f"{type(error).__name__}: {error}") from error


def _as(kind: type[T], found: object) -> T:
    if not isinstance(found, kind):
        raise ValueError(f"a {type(found).__name__} in place of a {kind.__name__}")
    return found


def _lists(found: object) -> dict[int, list[int]]:
    lists = _as(dict, found)
    for key, values in lists.items():
        if type(key) is not int or type(values) is not list or {*map(type, values)} - {int}:
            raise ValueError(f"{key!r} is not the number of a list of whole numbers")
    return lists


class _Type:
    """The type of an array's numbers, such as ``f4`` in little-endian order."""

    def __init__(self, name: str, *_options: object) -> None:
        self.name, self.order = name, "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1]

    def numpy(self) -> np.dtype[Any]:
        """NumPy's, of numbers alone."""
        if self.name not in TYPES or self.order not in ("<", ">", "=", "|"):
            raise ValueError(f"numbers of type {self.order!r} {self.name!r}")
        return np.dtype(self.order + self.name)


class _Array:
    """An array as it was written: version, shape, type, whether by columns, and bytes."""

    state: tuple[Any, ...]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def values(self) -> Tensor:
        _version, shape, kind, by_columns, content = self.state
        raw = content.encode("latin1") if isinstance(content, str) else content  # Python 2 or 3
        dtype = _as(_Type, kind).numpy()
        _check_shape(shape)
        if len(raw) != prod(shape) * dtype.itemsize:
            raise ValueError(f"{len(raw)} bytes for an array of shape {shape} of {dtype}")
        flat = np.frombuffer(raw, dtype).astype(dtype.newbyteorder("="))
        array = torch.from_numpy(flat.reshape(shape, order="F" if by_columns else "C"))
        if not array.double().isfinite().all():
            raise ValueError("NaN or infinity")
        return array


class _SparseRows:
    """A matrix as it was written: its shape, and values and their columns, row after row."""

    _shape: tuple[int, int]
    data: _Array
    indices: _Array
    indptr: _Array

    def coordinates(self) -> Tensor:
        _check_shape(self._shape)
        rows, columns = self._shape
        start, column, value = (
            _as(_Array, part).values() for part in (self.indptr, self.indices, self.data)
        )
        if start.shape != (rows + 1,) or column.shape != value.shape or value.dim() != 1:
            raise ValueError(f"a matrix of {rows} rows whose parts do not fit together")
        size = start.long().diff()
        if int(start[0]) or int(start[-1]) != len(value) or (size < 0).any():
            raise ValueError(f"{len(value)} values, not all of them in one row")
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < columns:
            raise ValueError(f"a value outside of the {columns} columns")
        index = torch.stack([torch.arange(rows).repeat_interleave(size), column.long()])
        return torch.sparse_coo_tensor(index, value.float(), (rows, columns), check_invariants=True)


def _check_shape(shape: object) -> None:
    if not isinstance(shape, tuple) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"the shape {shape!r}")


def _new(cls: type[object], *_arguments: object) -> object:
    if cls not in (_Array, _SparseRows):
        raise pickle.UnpicklingError(f"{cls!r} is no array")
    return object.__new__(cls)


def _encode(text: str, _encoding: str) -> bytes:
    return text.encode("latin1")


def _dict(_of: object) -> dict[object, object]:
    return {}


NAMES: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): _Array,
    ("numpy.core.multiarray", "_reconstruct"): _new,
    ("numpy._core.multiarray", "_reconstruct"): _new,
    ("scipy.sparse.csr", "csr_matrix"): _SparseRows,
    ("scipy.sparse._csr", "csr_matrix"): _SparseRows,
    ("collections", "defaultdict"): _dict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("__builtin__", "object"): object,
    ("copy_reg", "_reconstructor"): _new,
    ("copyreg", "_reconstructor"): _new,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(f"{module}.{name} is no array, and may run anything")
        return NAMES[module, name]
