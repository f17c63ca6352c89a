"""Functions that seed, save and restore the random number generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed the random number generators of Python, NumPy, and PyTorch on every device. Unlike
    Lightning's function, it sets no environment variable that later Trainers read.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """Return the states of all generators, in a form that ``torch.load`` reads without code."""
    algorithm, keys, *counters = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (algorithm, np.asarray(keys).tolist(), *counters),
        "python": random.getstate(),
    }


def restore_rng(state: dict[str, Any]) -> None:
    """Set all generators to the states that :func:`rng_state` returned."""
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    np.random.set_state(state["numpy"])
    random.setstate(state["python"])
