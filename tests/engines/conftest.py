"""Bound graphs remember which engine served them, and tests change what engines say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise.graphs.graph import bound_graphs


@pytest.fixture(autouse=True)
def _forget_choices() -> Iterator[None]:
    bound_graphs.cache_clear()
    yield
    bound_graphs.cache_clear()
