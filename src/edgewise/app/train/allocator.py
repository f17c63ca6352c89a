"""Setting of the C library's memory allocator."""

from __future__ import annotations

import ctypes
import os
import platform

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX in glibc's malloc.h
_NEVER = -1


def keep_freed_memory() -> None:
    """Let this process keep the memory of freed tensors, instead of returning it to the system.

    By default, glibc returns the memory of a large tensor when the tensor is freed. The next
    training step then causes page faults for memory of the same size. The peak memory of the
    process can be higher. Nothing changes without glibc, or if an environment variable
    ``MALLOC_...`` or ``GLIBC_TUNABLES`` configures the allocator already.

    Example:
        >>> from edgewise.app.train.allocator import keep_freed_memory
        >>> keep_freed_memory()  # doctest: +SKIP
    """
    configured = any(name.startswith("MALLOC_") for name in os.environ)
    configured = configured or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if platform.libc_ver()[0] == "glibc" and not configured:
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, _NEVER)
