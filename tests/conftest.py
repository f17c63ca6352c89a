"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.seeds import seed

# One thread is fastest for what is this small. Already where tests are collected, as modules make
# their graphs then, and as other threads give other last bits.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> Iterator[None]:
    """Every test starts from one seed, and on one thread."""
    seed(0)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
