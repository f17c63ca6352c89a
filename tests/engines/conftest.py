"""Bound graphs remember which engine served them, and tests change what engines say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise.graphs.graph import _bind


@pytest.fixture(autouse=True)
def _forget_choices() -> Iterator[None]:
    _bind.cache_clear()
    yield
    _bind.cache_clear()
