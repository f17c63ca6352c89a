"""The choices of engines are remembered, and tests change what engines say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgewise.attention.attend import cached_choice
from edgewise.graphs.graph import bound_graphs


@pytest.fixture(autouse=True)
def _forget_choices() -> Iterator[None]:
    for cache in (bound_graphs, cached_choice):
        cache.cache_clear()
    yield
    for cache in (bound_graphs, cached_choice):
        cache.cache_clear()
