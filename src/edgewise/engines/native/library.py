"""Loading and checking of the library of C++ kernels.

The C++ sources are in ``src/edgewise/csrc``. The library is called through ctypes, which releases
the GIL during each call, and links to neither PyTorch nor Python.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Iterator
from ctypes import c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from edgewise.engines.native.abi import Structure, parse

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
STATUS = {1: "out of memory", 2: "an index is out of range", 3: "an argument does not fit"}
KERNELS = (
    *("ew_attend", "ew_attend_grad", "ew_edge_scores", "ew_softmax", "ew_tiles", "ew_tiles_grad"),
    *("ew_aggregate", "ew_aggregate_grad_rows", "ew_aggregate_grad_columns"),
)
"""Functions that the library must export; a library without one of them has another version."""
NAME = "libedgewise_native"
HEADER = Path(__file__).parents[2] / "csrc" / "abi.h"
"""The header ``abi.h`` in a clone; the library must have been compiled with the same text.

An installed wheel does not contain this file.
"""


class NativeError(RuntimeError):
    """Error that a C++ kernel reports, or that the library is missing."""


@cache
def library() -> ctypes.CDLL | None:
    """Return the library of C++ kernels, or ``None``; :data:`MISSING` has the reason."""
    loaded, _ = _loaded()
    return loaded


@cache
def _loaded() -> tuple[ctypes.CDLL | None, str]:
    """Return the library and an empty string, or None and the reason, with a warning."""
    loaded, why = _load()
    if why:
        warnings.warn(
            f"Edgewise runs much slower, because it cannot use its native kernels: {why}",
            stacklevel=2,
        )
    return loaded, why


def _load() -> tuple[ctypes.CDLL | None, str]:
    path = next(_candidates(), None)
    if path is None:
        return None, "they were not built (install a C++ compiler, then reinstall edgewise)"
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.ew_abi.restype = ctypes.c_char_p
        for function in (*KERNELS, "ew_tiles_pieces", "ew_tiles_visits", "ew_sample"):
            getattr(loaded, function)
    except (OSError, AttributeError):  # The library is damaged or has another version.
        return None, f"{path} does not load or has another version ({_remedy()})"
    if HEADER.is_file() and HEADER.read_text(encoding="utf-8") != loaded.ew_abi().decode():
        return None, f"{path} was compiled from another {HEADER.name} than {HEADER} ({_remedy()})"
    loaded.ew_isa.restype = ctypes.c_char_p
    loaded.ew_divide.restype = None
    loaded.ew_sum.restype = None
    loaded.ew_tiles_pieces.argtypes = (*[c_int64] * 3, *[c_void_p] * 10)
    loaded.ew_tiles_visits.argtypes = (c_int64, *[c_void_p] * 3, c_int64, *[c_void_p] * 5)
    numbers = c_int64, c_uint64, c_int64
    loaded.ew_sample.argtypes = (c_int64, *[c_void_p] * 3, *numbers, *[c_void_p] * 5)
    loaded.ew_sample.restype = c_int64
    loaded.ew_set_team.argtypes = (c_void_p,)
    loaded.ew_set_team(_openmp_team())
    return loaded, ""


@cache
def structures() -> dict[str, Structure]:
    """Return the C structures of the library by name, from the header that it contains."""
    loaded = library()
    return {} if loaded is None else parse(loaded.ew_abi().decode())


def instruction_set() -> str:
    """Return the instruction set of the kernels in use: ``avx512``, ``avx2`` or ``base``."""
    loaded = library()
    return loaded.ew_isa().decode() if loaded is not None else ""


def sum_copies(x: Tensor) -> Tensor:
    """Sum a tensor over dimension 0, bitwise the same for any number of threads."""
    if x.dtype not in (torch.float32, torch.float64):
        return x.sum(0)
    if not x.shape[0]:
        return x.new_zeros(x.shape[1:])
    if x.shape[0] == 1:
        return x[0].clone()  # A view would keep x in memory.
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
    """Yield paths of the library: ``EDGEWISE_NATIVE``, this folder, that of an editable install."""
    if chosen := os.environ.get("EDGEWISE_NATIVE"):
        yield Path(chosen)
        return
    here = Path(__file__).parent
    for folder in (here, *(Path(entry) / "edgewise" / "engines" / "native" for entry in sys.path)):
        for suffix in ("so", "dylib", "dll"):
            path = folder / f"{NAME}.{suffix}"
            if path.is_file():
                yield path


def _openmp_team() -> int | None:
    """Return the address of ``GOMP_parallel`` in PyTorch's OpenMP runtime.

    The kernels run on its threads, because those of a second runtime would compete with them.
    """
    bundled = sorted((Path(torch.__file__).parent / "lib").glob("libgomp*"))
    for name in (*map(str, bundled), None):
        try:
            return ctypes.cast(ctypes.CDLL(name).GOMP_parallel, c_void_p).value
        except (OSError, AttributeError, TypeError):  # Windows has no library ``None``.
            continue
    return None


def _remedy() -> str:
    """Return what to do: build the library again in a clone, otherwise reinstall Edgewise."""
    return "run `make native`" if HEADER.is_file() else "reinstall edgewise"


MISSING: str = _loaded()[1]
"""Reason why the kernels cannot run, with a remedy; empty if they can."""
