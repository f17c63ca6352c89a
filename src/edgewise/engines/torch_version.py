"""The PyTorch versions that Edgewise is tested with."""

from __future__ import annotations

import re
import warnings

import torch

OLDEST, NEWEST = (2, 9), (2, 14)
"""Oldest and newest minor version of PyTorch with which the tests pass."""


def warn_if_untested() -> None:
    """Warn if the installed PyTorch is newer than the newest tested version."""
    version = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if version and (int(version[1]), int(version[2])) > NEWEST:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
        warnings.warn(
            f"Edgewise is tested with PyTorch {oldest} to {newest}; the installed version is "
            f"{torch.__version__}. If results differ, install torch=={newest}.*.",
            stacklevel=2,
        )
