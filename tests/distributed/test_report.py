"""The traffic that a partition reports is what the processes send over their sockets."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist

from benchmarks.scale import measure
from edgewise import distributed, graphs
from tests.distributed.cases import random_edges
from tests.distributed.processes import Processes

OVERHEAD = 4096
"""Bytes of message headers, of checks and of barriers, at most."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads TCP_INFO")
@pytest.mark.parametrize("way", ["halo", "heads", "ring"])
def test_reported_bytes_are_sent(two: Processes, way: str) -> None:
    torch.manual_seed(0)
    hub = graphs.window(5) | graphs.hubs([0])
    for pattern in (random_edges(2000, 2000, 4000), graphs.window(5), hub, graphs.causal()):
        for _, forward, sent, backward, returned in two.results(measure, pattern, 2000, 4, 8, way):
            assert 0 <= sent - forward < OVERHEAD
            assert 0 <= returned - backward < OVERHEAD


def reported(way: Any) -> str:
    divided = distributed.partition(graphs.window(2), 30 + 10 * dist.get_rank(), by=way)
    query = torch.empty(1, 30, 4, 8, device="meta")
    return str(divided.report(query, query, query))


def test_a_report_is_a_table(two: Processes) -> None:
    for table in two.results(reported, "halo"):
        lines = [line.split() for line in table.splitlines()]
        # Two rows each way, key and value of 4 heads of 8 numbers of 4 bytes.
        sent = str(2 * 2 * 4 * 8 * 4)
        assert lines[1][:7] == ["0", "30", "30", "147", "2", sent, sent]
        assert lines[2][:7] == ["1", "40", "40", "197", "2", sent, sent]
