"""The state of every random number generator that training draws from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and PyTorch on every device.

    As Lightning's does, without Lightning, for seeds of 2³² and more, which it refuses, and without
    leaving the seed in the environment.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """All states, as tensors and plain numbers that load without unpickling anything else."""
    _, keys, place, has_gauss, gauss = np.random.get_state()
    version, words, cached = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [np.asarray(keys).tolist(), int(place), int(has_gauss), float(gauss)],
        "python": [version, list(words), cached],
    }


def restore_rng(state: dict[str, Any]) -> None:
    """Continue from what :func:`rng_state` gave."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), *rest))
    version, words, cached = state["python"]
    random.setstate((version, tuple(words), cached))
