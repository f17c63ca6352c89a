"""Progress of a loop where there is no terminal."""

from __future__ import annotations

import pytest

from edgewise.app.cli import progress


def test_a_slow_loop_prints_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 6))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: next(clock))
    assert list(progress.with_progress(range(4), "removed")) == [0, 1, 2, 3]
    assert list(progress.with_progress(iter(range(4)), "answered")) == [0, 1, 2, 3]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "edgewise: removed 2 of 4, about 12 s left",
        "edgewise: removed 4 of 4, about 0 s left",
    ]
