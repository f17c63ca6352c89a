"""Processes that Edgewise starts do not import modules of the current folder."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from edgewise.app.runs import side_by_side


@pytest.mark.parametrize("before", [None, "0", "1"])
def test_workers_of_compare(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    values = []

    class Process:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:  # starts the server that forks the workers
            values.append(os.environ.get("PYTHONSAFEPATH"))

    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    if before is not None:
        monkeypatch.setenv("PYTHONSAFEPATH", before)
    connection = SimpleNamespace(close=lambda: None)
    context = SimpleNamespace(Process=Process, Pipe=lambda **_: (connection, connection))
    side_by_side._start(context, print, ())
    assert values == ["1"]
    assert os.environ.get("PYTHONSAFEPATH") == before
