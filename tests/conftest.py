"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.seeds import seed


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """What modules make once is made as their tests run: other threads, other last bits."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> Iterator[None]:
    """Every test starts from one seed, and one thread is fastest for what is this small."""
    seed(0)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
