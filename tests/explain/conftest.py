"""A small trained run of each kind, trained once for all tests of explanations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import edgewise
from tests.explain import small_runs


@pytest.fixture(scope="session")
def run_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], edgewise.app.runs.Run]:
    """Return a function from the name of a kind to its run."""
    folders: dict[str, Path] = {}

    def found(kind: str) -> edgewise.app.runs.Run:
        if kind not in folders:
            make, needed = small_runs.KINDS[kind]
            for package in ("lightning", *needed):
                pytest.importorskip(package)
            folders[kind] = make(tmp_path_factory.mktemp(kind))
        return edgewise.load(folders[kind])

    return found
