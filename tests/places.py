"""Which tests need a data set that is not in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("EDGEWISE_DATA") or "/nonexistent")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip where ``EDGEWISE_DATA`` lacks one of these data sets."""
    missing = [name for name in names if not (ROOT / name / "raw").is_dir()]
    reason = f"EDGEWISE_DATA names no folder with {', '.join(missing)}"
    return pytest.mark.skipif(bool(missing), reason=reason)
