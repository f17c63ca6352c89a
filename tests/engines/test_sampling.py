"""The C++ library and PyTorch sample the same edges; each edge is as likely as the others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from edgewise.engines.native import library, sampling
from edgewise.engines.native.sampling import SampledEdges, SortedGraph, sample_edges

NODES = 60


def sorted_graph() -> SortedGraph:
    """Return a graph with a hub, node 5, and nodes without edges, sorted by target."""
    source, target = torch.randint(NODES, (2, 400))
    target[:150] = 5
    target, order = target[target % 7 > 0].sort(stable=True)
    pointer = torch.searchsorted(target, torch.arange(NODES + 1))
    return SortedGraph(pointer, source[order].int())


def sample(fanout: int, seed: int, graph: SortedGraph) -> tuple[SampledEdges, Tensor]:
    targets = torch.tensor([9, 5, 7, 3])  # Node 7 has no edge.
    local = torch.full((NODES,), -1, dtype=torch.int32)
    local[targets] = torch.arange(4, dtype=torch.int32)
    return sample_edges(graph, targets, fanout, seed=seed, local=local, count=4), local


@pytest.mark.skipif(bool(library.MISSING), reason=library.MISSING)
@pytest.mark.parametrize("fanout", [1, 4, 30, -1])
def test_both_implementations_are_equal(fanout: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = sorted_graph()
    for seed in (0, 2**40 + 3, 2**63 - 2):
        native, native_local = sample(fanout, seed, graph)
        with monkeypatch.context() as patch:
            patch.setattr(sampling.library, "library", lambda: None)
            in_torch, local = sample(fanout, seed, graph)
        assert all(map(torch.equal, native, in_torch))
        assert torch.equal(native_local, local)


def test_each_edge_is_as_likely() -> None:
    """Of 40 edges, 10 are sampled 4,000 times, so each 1,000 ± 27 times."""
    graph = SortedGraph(torch.tensor([0, 40]), torch.zeros(40, dtype=torch.int32))
    counts = torch.zeros(40, dtype=torch.long)
    for seed in range(4000):
        local = torch.zeros(1, dtype=torch.int32)
        sampled = sample_edges(
            graph, torch.tensor([0]), 10, seed=seed * 7919 << 20, local=local, count=1
        )
        counts[sampled.edge] += 1
        assert len(sampled.edge.unique()) == 10
    assert (counts - 1000).abs().max() < 5 * 27
