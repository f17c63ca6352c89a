"""The allocator's setting: a freed tensor's memory serves the next one."""

from __future__ import annotations

import platform
from textwrap import dedent

import pytest

from tests.imports import run_code

STEPS = """
    import resource, torch
    from edgewise.training.allocator import keep_freed_memory
    {setting}
    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(16_000_000)  # 64 MB
    before = faults()
    for _ in range(20):
        torch.ones(16_000_000)
    print(faults() - before)
"""


def page_faults(setting: str) -> int:
    done = run_code(dedent(STEPS).format(setting=setting))
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is glibc's")
def test_freed_memory_is_used_again() -> None:
    """By default, each tensor gets its memory from the system, page by page."""
    assert page_faults("keep_freed_memory()") < 0.1 * page_faults("pass")
