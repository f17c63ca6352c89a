"""Setting of the C library's memory allocator."""

from __future__ import annotations

import ctypes
import os
import platform

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX in glibc's malloc.h
_NEVER = -1


def keep_freed_memory() -> None:
    """Let glibc keep the memory of freed tensors: no page faults in each step, but a higher peak.
    Nothing changes if an environment variable configures the allocator.
    """
    configured = any(name.startswith("MALLOC_") for name in os.environ)
    configured = configured or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if platform.libc_ver()[0] == "glibc" and not configured:
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_MAX, 0)
        libc.mallopt(_TRIM_THRESHOLD, _NEVER)
