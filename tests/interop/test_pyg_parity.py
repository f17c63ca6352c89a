"""The drop-ins agree with PyG's layers: outputs, and the gradient of every input and parameter."""

from __future__ import annotations

import pytest
import torch

from tests.errors import case as named

pytest.importorskip("torch_geometric")
from tests.interop.parity import (
    CASES,
    GRAPHS,
    Case,
    assert_same,
    gradients,
    inputs,
    tensors,
    twins,
)


def agree(case: Case, graph: str, dtype: torch.dtype) -> None:
    torch.manual_seed(len(graph))
    mine, other = twins(case, graph, dtype)
    x, index, edge = inputs(case, graph, dtype)
    for train in (True, False):
        outs = []
        for layer in (mine.train(train), other.train(train)):
            outs.append(layer(x, index) if edge is None else layer(x, index, edge))
        assert outs[0].shape == outs[1].shape
        assert_same(*outs, "output: ")
        probe = torch.randn_like(outs[1])
        given = tensors(x, edge)
        names = [f"input {i}" for i in range(len(given))] + [n for n, _ in other.named_parameters()]
        found = map(gradients, (mine, other), outs, [given] * 2, [probe] * 2)
        for name, *pair in zip(names, *found, strict=True):
            assert_same(*pair, f"gradient of {name}: ")


@pytest.mark.slow(every=2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_all_gradients(case: Case) -> None:
    """Over every graph in double precision, and once in single."""
    # PyG fails on more targets than sources: it fills the loops of the first from edges into all.
    fails = isinstance(case.arguments.get("fill_value"), str)
    for graph in GRAPHS:
        if graph.startswith("bipartite") and not case.bipartite:
            continue
        if graph == "bipartite_more_targets" and fails:
            continue
        with named(f"on {graph}"):
            agree(case, graph, torch.float64)
    with named("in float32"):
        agree(case, "self_loops", torch.float32)
