"""Seeds of the random number generators."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
import torch

from edgewise.app import train


def test_a_seed_is_that_of_all_generators_and_not_of_the_processes_started_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Lightning's function sets PL_GLOBAL_SEED, from which DDP seeds all processes alike."""
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    train.seed_everything(7)
    first = random.random(), np.random.rand(), float(torch.rand(1))
    train.seed_everything(7)
    assert (random.random(), np.random.rand(), float(torch.rand(1))) == first
    assert "PL_GLOBAL_SEED" not in os.environ
