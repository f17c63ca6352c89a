"""The C interface of ``src/edgewise/native`` by ctypes, which releases the GIL in each call."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
STATUS = {1: "out of memory", 2: "an index is out of range", 3: "an argument does not fit"}


class Side(Structure):
    """``ew_side``: the edges sorted by row, and how they are divided into pieces of work."""

    _fields_ = (
        *((name, c_int64) for name in ("rows", "cols", "edges", "chunks", "merges", "slots")),
        *((name, c_int32) for name in ("longest", "reserved")),
        *((name, c_void_p) for name in ("ptr", "col", "edge", "chunk", "merge")),
    )


class Nodes(Structure):
    """``ew_nodes``: a node tensor with its strides, in elements."""

    _fields_ = (("data", c_void_p), ("batch_stride", c_int64), ("node_stride", c_int64))


class Term(Structure):
    """``ew_term``: a bias or gain."""

    _fields_ = (
        *((name, c_void_p) for name in ("data", "index", "grad")),
        *((name, c_int64) for name in ("batch_stride", "rows")),
        *((name, c_int32) for name in ("width", "index_bits")),
    )


class Vectors(Structure):
    """``ew_vectors``: vectors on edges, in full or projected."""

    _fields_ = (
        ("full", c_void_p),
        ("full_grad", c_void_p),
        ("features", c_void_p),
        ("features_grad", c_void_p),
        ("weight", c_void_p),
        ("weight_grad", c_void_p),
        ("full_batch_stride", c_int64),
        ("features_batch_stride", c_int64),
        ("count", c_int64),
    )


class AttendArgs(Structure):
    """``ew_attend_args``."""

    _fields_ = (
        ("size", c_int64),
        *((name, c_int32) for name in ("dtype", "score", "activation", "threads")),
        *((name, c_int64) for name in ("batch", "heads", "width", "value_width", "groups")),
        *((name, c_double) for name in ("scale", "slope")),
        ("seed", c_uint64),
        ("dropout", c_double),
        ("first_edge", c_int64),
        ("by_target", POINTER(Side)),
        ("by_source", POINTER(Side)),
        *((name, Nodes) for name in ("query", "key", "value", "out", "grad_out")),
        *((name, Nodes) for name in ("grad_query", "grad_key", "grad_value")),
        ("bias", Term),
        ("gain", Term),
        ("edge_key", Vectors),
        ("edge_value", Vectors),
        *((name, c_void_p) for name in ("score_weight", "score_weight_grad", "lse", "stats")),
        *((name, c_void_p) for name in ("grad_lse", "slots", "record", "per_edge", "scores")),
    )


class AggregateArgs(Structure):
    """``ew_aggregate_args``."""

    _fields_ = (
        ("size", c_int64),
        *((name, c_int32) for name in ("dtype", "reduce", "threads", "reserved")),
        *((name, c_int64) for name in ("batch", "heads", "width")),
        ("side", POINTER(Side)),
        *((name, Nodes) for name in ("value", "out", "grad_out", "grad_value")),
        ("weight", c_void_p),
        ("weight_grad", c_void_p),
        ("weight_batch_stride", c_int64),
        ("share", c_void_p),
        ("slots", c_void_p),
    )


class SoftmaxArgs(Structure):
    """``ew_softmax_args``."""

    _fields_ = (
        ("size", c_int64),
        ("dtype", c_int32),
        ("threads", c_int32),
        ("batch", c_int64),
        ("heads", c_int64),
        ("side", POINTER(Side)),
        *((name, c_void_p) for name in ("scores", "grad", "out", "stats", "slots")),
    )


TILES_ARGS = struct.Struct("@qii8q5P2dQq" + 8 * "Pqq" + "3P")
"""``ew_tiles_args``, packed in one go: a short sequence takes its kernel a few microseconds."""

SIZES = (*map(ctypes.sizeof, (AttendArgs, AggregateArgs, SoftmaxArgs, Side)), TILES_ARGS.size)


class NativeError(RuntimeError):
    """A kernel reported that it could not do its work."""


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or ``None`` where they were not built; :func:`why_missing` says why."""
    path = next(_candidates(), None)
    if path is None:
        return None
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError:
        return None
    loaded.ew_sizes.restype = c_int64
    loaded.ew_isa.restype = ctypes.c_char_p
    loaded.ew_divide.restype = None
    loaded.ew_sum.restype = None
    if any(loaded.ew_sizes(which) != size for which, size in enumerate(SIZES)):
        return None
    loaded.ew_set_team.argtypes = (c_void_p,)
    loaded.ew_set_team(_openmp_team())
    return loaded


def _why_missing() -> str:
    if library() is not None:
        return ""
    path = next(_candidates(), None)
    if path is None:
        return "the native kernels were not built (reinstall edgewise where a C++ compiler is)"
    return f"{path} does not load or is of another version (reinstall edgewise)"


def instruction_set() -> str:
    """Which kernels this machine runs: ``avx512``, ``avx2`` or ``base``."""
    loaded = library()
    return loaded.ew_isa().decode() if loaded is not None else ""


def call(name: str, args: Structure) -> None:
    """Run an exported function.

    Raises:
        IndexError: an index of a table is out of range.
        NativeError: out of memory, or arguments that do not fit.

    """
    args.size = ctypes.sizeof(args)
    args.threads = torch.get_num_threads()
    run(name, ctypes.byref(args))


def run(name: str, args: Any) -> None:
    """:func:`call`, with the address of arguments that are complete."""
    loaded = library()
    if loaded is None:
        raise NativeError(MISSING)
    status = getattr(loaded, name)(args)
    if status == 2:
        raise IndexError("the index of a TableBias has entries out of range of its table")
    if status:
        raise NativeError(STATUS[status])


def nodes(x: Tensor | None) -> Nodes:
    """``[batch, node, head, width]``; :func:`rows_of` makes the last two axes dense."""
    if x is None:
        return Nodes(None, 0, 0)
    return Nodes(x.data_ptr(), x.stride(0) if x.shape[0] > 1 else 0, x.stride(1))


def address(x: Tensor | None) -> int | None:
    """Where a tensor's numbers are; null for none."""
    return None if x is None else x.data_ptr()


def sum_copies(x: Tensor) -> Tensor:
    """The sum over the first axis, in order, whatever the number of threads."""
    if x.shape[0] == 1:
        return x[0]
    if not x.shape[0]:
        return x.new_zeros(x.shape[1:])
    out = torch.empty_like(x[0])
    loaded = library()
    assert loaded is not None
    loaded.ew_sum(
        c_int32(x.dtype == torch.float64),
        c_int32(torch.get_num_threads()),
        c_int64(x.shape[0]),
        c_int64(out.numel()),
        c_void_p(x.data_ptr()),
        c_void_p(out.data_ptr()),
    )
    return out


def _candidates() -> Iterator[Path]:
    """``EDGEWISE_NATIVE``, or beside the sources (``make native``), or in an editable install."""
    if chosen := os.environ.get("EDGEWISE_NATIVE"):
        yield Path(chosen)
        return
    for root in (Path(__file__).parents[1], *(Path(entry) / "edgewise" for entry in sys.path)):
        for suffix in ("so", "dylib"):
            path = root / "native" / f"libedgewise_native.{suffix}"
            if path.is_file():
                yield path


def _openmp_team() -> int | None:
    """``GOMP_parallel`` of the OpenMP runtime inside PyTorch.

    Its threads are then ours too: a second runtime's would spin beside them.
    """
    bundled = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))
    for name in (*map(str, bundled), None):
        try:
            return ctypes.cast(ctypes.CDLL(name).GOMP_parallel, c_void_p).value
        except (OSError, AttributeError):
            continue
    return None


MISSING: str = _why_missing()
"""Why the kernels cannot run here, and what to do about it; empty if they can."""
