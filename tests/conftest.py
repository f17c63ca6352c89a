"""What all tests share."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator

import pytest

# Collection makes what stays until the end, which the garbage collector need not look at again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """A worker of xdist ends without seconds of taking its million objects apart, one by one."""
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)  # its controller has its results, and does not read its code
    else:
        atexit.register(gc.unfreeze)


def pytest_collectstart(collector: pytest.Collector) -> None:
    """One thread is fastest for what is this small, and other threads give other last bits.

    Already where tests are collected, as modules make their graphs then. The controller of xdist
    collects nothing, and does not import PyTorch.
    """
    if isinstance(collector, pytest.Session):
        import torch

        torch.set_num_threads(1)


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


@pytest.fixture(scope="session", autouse=True)
def _quick_trainings() -> Iterator[None]:
    """A tiny training takes as long as the figure of its learning curves.

    So do a few of Lightning's looks for callbacks in the metadata of all installed packages.
    """
    with pytest.MonkeyPatch.context() as patch:
        if fitting := sys.modules.get("edgewise.app.train.fitting"):
            from lightning.fabric.utilities import registry
            from matplotlib.figure import Figure

            patch.setattr(fitting, "curves", lambda *_: Figure(figsize=(1, 1)))
            patch.setattr(registry, "entry_points", functools.cache(registry.entry_points))
        yield


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> Iterator[None]:
    """Every test starts from one seed, and on one thread."""
    import torch

    from tests.seeds import seed

    seed(0)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)
