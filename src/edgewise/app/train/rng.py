"""Functions that seed, save and restore the random number generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed the random number generators of Python, NumPy, and PyTorch on every device.

    Unlike Lightning's function of this name, it does not need Lightning, accepts seeds of 2³² and
    more, and does not set an environment variable.

    Example:
        >>> import torch
        >>> from edgewise.app.train import seed_everything
        >>> seed_everything(0)
        >>> first = torch.rand(3)
        >>> seed_everything(0)
        >>> torch.equal(first, torch.rand(3))
        True
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """Return the states of all generators, as tensors, numbers and lists.

    ``torch.load`` with ``weights_only`` can read them.
    """
    _, keys, place, has_gauss, gauss = np.random.get_state()
    version, words, cached = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [np.asarray(keys).tolist(), int(place), int(has_gauss), float(gauss)],
        "python": [version, list(words), cached],
    }


def restore_rng(state: dict[str, Any]) -> None:
    """Set all generators to the states that :func:`rng_state` returned."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    keys, *rest = state["numpy"]
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), *rest))
    version, words, cached = state["python"]
    random.setstate((version, tuple(words), cached))
