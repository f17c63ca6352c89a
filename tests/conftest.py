"""What all tests share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from tests.seeds import seed

# One thread is fastest for what is this small. Already where tests are collected, as modules make
# their graphs then, and as other threads give other last bits.
torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Restrict ``slow`` to the cases that it names; all but the first of ``quick`` are slow."""
    seen: Counter[str] = Counter()
    for item in items:
        function, _, case = item.nodeid.rstrip("]").partition("[")
        seen[function] += 1
        slow, quick = item.get_closest_marker("slow"), item.get_closest_marker("quick")
        if slow and slow.args and case not in slow.args:
            item.own_markers.remove(slow)
        if quick and seen[function] > quick.kwargs["cases"]:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> Iterator[None]:
    """Every test starts from one seed, and on one thread."""
    seed(0)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
