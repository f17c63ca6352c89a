"""What every model with one output a graph must keep, beside what all models must."""

from __future__ import annotations

import inspect

import pytest
import torch
from torch import Tensor, nn

from edgewise import Graph, graphs, models
from edgewise.data import PackedGraphs

IN, OUT, BOND, CONDITION = 6, 2, 3, 2
SIZES = (3, 1, 5)


def small(name: str) -> nn.Module:
    torch.manual_seed(0)
    make = models.READOUT_MODELS[name]
    more = {"edge_width": BOND, "condition_width": CONDITION} if takes_bonds(name) else {}
    return make(IN, OUT, **more).double().eval()


def takes_bonds(name: str) -> bool:
    return "edge_width" in inspect.signature(models.READOUT_MODELS[name]).parameters


def packed() -> PackedGraphs:
    """A triangle, one node without an edge, and a path of five."""
    pairs = [[(0, 1), (1, 2), (2, 0)], [], [(0, 1), (1, 2), (2, 3), (3, 4)]]
    index = [torch.tensor(p, dtype=torch.long).reshape(-1, 2).T for p in pairs]
    both = [torch.cat([i, i.flip(0)], dim=1) for i in index]
    x = [torch.randn(n, IN, dtype=torch.double) for n in SIZES]
    bonds = [torch.randn(i.shape[1], BOND, dtype=torch.double) for i in both]
    return PackedGraphs.of(x, both, bonds)


def inputs(name: str, which: list[int], conditions: Tensor) -> tuple[Tensor | Graph, ...]:
    x, graph, members, bonds = packed().take(torch.tensor(which))
    more = (bonds, conditions[which]) if takes_bonds(name) else ()
    return (x, graph, members, *more)


@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_a_batch_gives_what_each_graph_alone_gives(name: str) -> None:
    model, conditions = small(name), torch.randn(3, CONDITION, dtype=torch.double)
    torch.manual_seed(3)
    together = model(*inputs(name, [2, 0, 1, 2], conditions))
    assert together.shape == (4, OUT)
    for row, one in enumerate([2, 0, 1, 2]):
        torch.manual_seed(3)
        alone = model(*inputs(name, [one], conditions))[0]
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_renumbering_the_nodes_changes_nothing(name: str) -> None:
    model, conditions = small(name), torch.randn(3, CONDITION, dtype=torch.double)
    x, graph, members, *more = inputs(name, [0, 1, 2], conditions)
    order = torch.cat([torch.randperm(3), torch.tensor([3]), 4 + torch.randperm(5)])
    renumbered = graphs.edges(order.argsort()[graph.edge_index], len(x))
    moved = model(x[order], renumbered, members, *more)
    torch.testing.assert_close(moved, model(x, graph, members, *more), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in models.READOUT_MODELS if takes_bonds(n)])
@pytest.mark.parametrize("argument", [3, 4])
def test_bonds_and_conditions_matter(name: str, argument: int) -> None:
    model, conditions = small(name), torch.randn(3, CONDITION, dtype=torch.double)
    given = list(inputs(name, [0, 2], conditions))
    before = model(*given)
    given[argument] = given[argument] + 1
    assert (model(*given) - before).abs().min() > 1e-6


def test_descriptors_matter() -> None:
    torch.manual_seed(0)
    model = models.molecule_transformer(
        IN, OUT, edge_width=BOND, condition_width=CONDITION, descriptor_width=5
    )
    conditions = torch.randn(3, CONDITION, dtype=torch.double)
    given = inputs("molecule_transformer", [0, 2], conditions)
    described = torch.randn(2, 5, dtype=torch.double)
    model = model.double().eval()
    before = model(*given, described)
    assert (model(*given, described + 1) - before).abs().min() > 1e-6
