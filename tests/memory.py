"""How much memory a call takes, without a process of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

STATUS, REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")
readable = pytest.mark.skipif(not os.access(REFERENCES, os.W_OK), reason="no peaks in /proc")


def peak() -> int:
    """Bytes that this process has had at most."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def growth(call: Callable[[], object]) -> int:
    """Bytes by which this process is larger at most while something is called."""
    REFERENCES.write_text("5")  # the peak is what it has now
    before = peak()
    call()
    return peak() - before
