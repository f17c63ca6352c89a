"""The allocator's setting: a freed tensor's memory serves the next one."""

from __future__ import annotations

import os
import platform
import sys

import pytest

from edgewise.app import cli
from tests.imports import run_code

STEPS = """
import resource, torch
from edgewise.app.train.process import keep_freed_memory

def page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(16_000_000)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

by_default = page_faults()
keep_freed_memory()
page_faults()  # The first tensors may still get new memory, depending on the layout of the heap.
print(by_default, page_faults())
"""


def page_faults(monkeypatch: pytest.MonkeyPatch, **environment: str) -> tuple[int, int]:
    """Page faults of 20 allocations: by default, and after the call."""
    for name in [*os.environ]:
        if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES":
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = run_code(STEPS)
    assert done.returncode == 0, done.stderr
    by_default, kept = map(int, done.stdout.split())
    return by_default, kept


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_freed_memory_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default, each tensor gets its memory from the system, page by page."""
    by_default, kept = page_faults(monkeypatch)
    assert kept < 0.1 * by_default


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_the_users_own_setting_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    by_default, kept = page_faults(monkeypatch, MALLOC_MMAP_THRESHOLD_="131072")
    assert kept > 0.9 * by_default


def test_only_a_process_of_ones_own_keeps_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that passes arguments to ``main`` has its own settings."""
    called = []
    replacement = "edgewise.app.train.process.keep_freed_memory"
    monkeypatch.setattr(replacement, lambda: called.append("command"))
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.setattr(sys, "argv", ["edgewise", "list"])
    cli.main(["list"])
    assert called == []
    cli.main()
    assert called == ["command"]
