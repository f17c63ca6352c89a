"""Setting of the C library's memory allocator."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX in glibc's malloc.h


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed tensors, instead of returning it to the system.

    A training step allocates its large tensors anew. By default, glibc returns the memory of a
    large tensor to the system as soon as it is freed, and the system has to provide it again, page
    by page, in the next step. Without glibc, nothing changes.

    Example:
        >>> from edgewise.training.allocator import keep_freed_memory
        >>> keep_freed_memory()
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
