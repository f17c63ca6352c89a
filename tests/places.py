"""Which tests need a data set that is not in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("EDGEWISE_DATA") or "/nonexistent")


def needs(name: str) -> pytest.MarkDecorator:
    """Skip where ``EDGEWISE_DATA`` lacks this data set."""
    there = (ROOT / name / "raw").is_dir()
    return pytest.mark.skipif(not there, reason=f"EDGEWISE_DATA names no folder with {name}")
