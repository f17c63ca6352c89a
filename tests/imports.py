"""Code in a process of its own, for which packages are as if they were not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

BLOCKED = """
import importlib, importlib.abc, importlib.util, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(f"{{name}}.".startswith(f"{{p}}.") for p in {packages!r}) and asks_for_it():
            raise ImportError(f"edgewise imported {{name}}, which is optional")

def asks_for_it():
    machinery = importlib.__file__, importlib.util.__file__
    frame = sys._getframe(2)
    while frame:  # the first caller that is not the import machinery
        file = frame.f_code.co_filename
        if not file.startswith("<frozen") and file not in machinery:
            return "edgewise" in file or file == "<string>"
        frame = frame.f_back

sys.meta_path.insert(0, Blocked())
"""


def blocking(packages: Iterable[str]) -> str:
    """Code after which Edgewise cannot import these packages; PyTorch still can."""
    return BLOCKED.format(packages=list(packages))


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    """The code in a fresh process."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
