"""The native library: found, loaded by ctypes (which releases the GIL in each call), and checked.

Its C++ is in ``src/edgewise/csrc``; nothing of PyTorch or Python is linked.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Iterator
from ctypes import c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from edgewise.engines.native.abi import Structure, parse

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
ACCUMULATORS = {
    dtype: torch.float64 if dtype == torch.float64 else torch.float32 for dtype in DTYPES
}
"""The type in which the kernels hold sums over numbers of a storage type."""
STATUS = {1: "out of memory", 2: "an index is out of range", 3: "an argument does not fit"}
KERNELS = (
    *("ew_attend", "ew_attend_grad", "ew_edge_scores", "ew_softmax", "ew_tiles", "ew_tiles_grad"),
    *("ew_aggregate", "ew_aggregate_grad_rows", "ew_aggregate_grad_columns"),
)
"""What operators run; a library that lacks one is of another version."""
NAME = "libedgewise_native"
HEADER = Path(__file__).parents[2] / "csrc" / "abi.h"
"""What a library must have been compiled from; a clone has it, a wheel does not."""


class NativeError(RuntimeError):
    """A kernel reported that it could not do its work."""


@cache
def library() -> ctypes.CDLL | None:
    """The kernels, or ``None`` where they cannot run; :data:`MISSING` says why."""
    loaded, _ = _loaded()
    return loaded


@cache
def _loaded() -> tuple[ctypes.CDLL | None, str]:
    """The kernels, or the reason why they cannot run with its remedy, which is also warned of."""
    loaded, why = _load()
    if why:
        warnings.warn(
            f"Edgewise runs without its native kernels, and much slower: {why}", stacklevel=2
        )
    return loaded, why


def _load() -> tuple[ctypes.CDLL | None, str]:
    path = next(_candidates(), None)
    if path is None:
        return None, "they were not built (install a C++ compiler, then reinstall edgewise)"
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.ew_abi.restype = ctypes.c_char_p
        for function in (*KERNELS, "ew_tiles_pieces", "ew_tiles_visits"):
            getattr(loaded, function)
    except (OSError, AttributeError):  # damaged, or of another version
        return None, f"{path} does not load or is of another version ({_remedy()})"
    if HEADER.is_file() and HEADER.read_text(encoding="utf-8") != loaded.ew_abi().decode():
        return None, f"{path} was compiled from another {HEADER.name} than {HEADER} ({_remedy()})"
    loaded.ew_isa.restype = ctypes.c_char_p
    loaded.ew_divide.restype = None
    loaded.ew_sum.restype = None
    loaded.ew_tiles_pieces.argtypes = (*[c_int64] * 3, *[c_void_p] * 10)
    loaded.ew_tiles_visits.argtypes = (c_int64, *[c_void_p] * 3, c_int64, *[c_void_p] * 5)
    loaded.ew_set_team.argtypes = (c_void_p,)
    loaded.ew_set_team(_openmp_team())
    return loaded, ""


@cache
def structures() -> dict[str, Structure]:
    """The structures of the C interface that the loaded library was compiled with."""
    loaded = library()
    return {} if loaded is None else parse(loaded.ew_abi().decode())


def instruction_set() -> str:
    """Which kernels this machine runs: ``avx512``, ``avx2`` or ``base``."""
    loaded = library()
    return loaded.ew_isa().decode() if loaded is not None else ""


def sum_copies(x: Tensor) -> Tensor:
    """The sum over the first axis, in order, whatever the number of threads."""
    if x.dtype not in (torch.float32, torch.float64):
        return x.sum(0)
    if not x.shape[0]:
        return x.new_zeros(x.shape[1:])
    if x.shape[0] == 1:
        return x[0].clone()  # a view's owner would be kept alive by it
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
    """``EDGEWISE_NATIVE``, or beside this file (``make native``), or in an editable install."""
    if chosen := os.environ.get("EDGEWISE_NATIVE"):
        yield Path(chosen)
        return
    here = Path(__file__).parent
    for folder in (here, *(Path(entry) / "edgewise" / "engines" / "native" for entry in sys.path)):
        for suffix in ("so", "dylib"):
            path = folder / f"{NAME}.{suffix}"
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


def _remedy() -> str:
    """A clone has the sources, and what makes the library of them; a wheel does not."""
    return "run `make native`" if HEADER.is_file() else "reinstall edgewise"


MISSING: str = _loaded()[1]
"""Why the kernels cannot run here, and what to do about it; empty if they can."""
