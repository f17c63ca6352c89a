"""Attention over one graph on several processes equals attention on one."""

from __future__ import annotations

import pytest
import torch

from tests.distributed.cases import CASES, compare
from tests.distributed.processes import Processes

WAYS = ["halo", "heads", "ring"]
PAIRS = [(name, way) for name in CASES for way in WAYS if (name, way) != ("entmax", "ring")]


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_two_processes_equal_one(two: Processes, name: str, way: str) -> None:
    for errors in two.results(compare, name, way):
        assert max(errors.values()) < 1e-13, errors
