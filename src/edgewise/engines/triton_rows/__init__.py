"""Triton kernels of the engine "rows", for NVIDIA and AMD GPUs (device type ``cuda`` on both).

The operators have the same arguments and results as those in ``engines/rows``. For tests without a
GPU, set ``TRITON_INTERPRET=1`` and ``EDGEWISE_TRITON=1`` before Python starts. Triton's interpreter
then runs the kernels on CPU tensors, slowly.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import util

import torch

from edgewise._utils.errors import how_to_install
from edgewise.engines.call import Problem
from edgewise.engines.native.operator import refusals
from edgewise.engines.triton_rows.launch import MOST_SLOTS, MOST_WIDTH

INTERPRETED = os.environ.get("EDGEWISE_TRITON") == "1"
"""Whether these kernels also run on CPU tensors, in Triton's interpreter."""


def _why_missing() -> str:
    with suppress(ImportError):  # A custom import finder may raise ImportError.
        if util.find_spec("triton"):
            return ""
    return f"Triton, which compiles its kernels for a GPU, is missing: {how_to_install('gpu')}"


MISSING: str = _why_missing()
"""Reason why the kernels cannot run, with a remedy; empty if they can."""


def serves(device: torch.device) -> bool:
    """Return whether the Triton kernels run on this device."""
    return (device.type == "cuda" or (INTERPRETED and device.type == "cpu")) and not MISSING


def refuses(problem: Problem, largest: int) -> list[str]:
    """Return the reasons why no Triton kernel can compute a call; an empty list if one can."""
    reasons = refusals(problem, largest + MOST_SLOTS, device=problem.device.type, missing=MISSING)
    widest = max(problem.width, problem.value_width)
    if problem.operation == "attend" and widest > MOST_WIDTH:
        reasons.append(f"on a GPU, heads may be at most {MOST_WIDTH} wide, not {widest}")
    return reasons
