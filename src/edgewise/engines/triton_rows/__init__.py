"""The rows engine's kernels on a GPU, in Triton: the operators of ``rows``, with other insides.

They serve CUDA tensors (NVIDIA's and AMD's, which PyTorch both calls ``cuda``). Without a GPU they
can be run by Triton's interpreter, slowly, on CPU tensors: set ``TRITON_INTERPRET=1`` (Triton's own
variable) and ``EDGEWISE_TRITON=1`` (ours) before Python starts. That is for tests.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import util

import torch

from edgewise.engines.call import Problem
from edgewise.engines.native.operator import refusals
from edgewise.engines.triton_rows.launch import MOST_SLOTS, MOST_WIDTH
from edgewise.errors import how_to_install

INTERPRETED = os.environ.get("EDGEWISE_TRITON") == "1"
"""Whether tensors on the CPU are for these kernels."""


def _why_missing() -> str:
    with suppress(ImportError):  # a finder of somebody's may refuse in this way
        if util.find_spec("triton"):
            return ""
    return f"Triton, which compiles its kernels for a GPU, is missing: {how_to_install('gpu')}"


MISSING: str = _why_missing()
"""Why the kernels cannot run, and what to do about it; empty if they can."""


def serves(device: torch.device) -> bool:
    """Whether tensors on this device are for these kernels."""
    return (device.type == "cuda" or (INTERPRETED and device.type == "cpu")) and not MISSING


def refuses(problem: Problem, largest: int) -> list[str]:
    """What keeps the kernels from serving a problem in which this is the largest number."""
    reasons = refusals(problem, largest + MOST_SLOTS, device=problem.device.type, missing=MISSING)
    widest = max(problem.width, problem.value_width)
    if problem.operation == "attend" and widest > MOST_WIDTH:
        reasons.append(f"on a GPU heads may be at most {MOST_WIDTH} wide, not {widest}")
    return reasons
