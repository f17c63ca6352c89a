"""What all tests share."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from tests.seeds import seed

# One thread is fastest for what is this small. Already where tests are collected, as modules make
# their graphs then, and as other threads give other last bits.
torch.set_num_threads(1)


# Collection makes what stays until the end, which the garbage collector need not look at again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``slow`` is for the cases that it names, those after the first, or all but each n-th."""
    seen: Counter[str] = Counter()
    for item in items:
        function, _, case = item.nodeid.rstrip("]").partition("[")
        number, slow = seen[function], item.get_closest_marker("slow")
        seen[function] += 1
        if slow and (
            (slow.args and case not in slow.args)
            or number < slow.kwargs.get("after", 0)
            or ("every" in slow.kwargs and number % slow.kwargs["every"] == 0)
        ):
            item.own_markers.remove(slow)


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> Iterator[None]:
    """Every test starts from one seed, and on one thread."""
    seed(0)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
