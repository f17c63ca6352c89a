"""What every model with one output a graph must keep, beside what all models must."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from edgewise import Graph, graphs, layers, models
from edgewise.app.train import PackedGraphs
from edgewise.encodings import Laplacian
from edgewise.models.san import LearnedSpectrum
from edgewise.models.token_gt import NodeIdentifiers
from tests.errors import refused

IN, OUT, BOND, CONDITION = 6, 2, 3, 2
SIZES = (3, 1, 5)


def small(name: str, **given: Any) -> Any:
    torch.manual_seed(0)
    return models.READOUT_MODELS[name](IN, OUT, **widths(name), **given).double().eval()


def widths(name: str) -> dict[str, int]:
    """Of the bonds and conditions, where the model reads them."""
    known = inspect.signature(models.READOUT_MODELS[name]).parameters
    wanted = {"edge_width": BOND, "global_width": CONDITION}
    return {field: width for field, width in wanted.items() if field in known}


def takes_bonds(name: str) -> bool:
    return bool(widths(name))


def packed() -> PackedGraphs:
    """A triangle, one node without an edge, and a path of five."""
    pairs = [[(0, 1), (1, 2), (2, 0)], [], [(0, 1), (1, 2), (2, 3), (3, 4)]]
    index = [torch.tensor(p, dtype=torch.long).reshape(-1, 2).T for p in pairs]
    both = [torch.cat([i, i.flip(0)], dim=1) for i in index]
    x = [torch.randn(n, IN, dtype=torch.double) for n in SIZES]
    bonds = [torch.randn(i.shape[1], BOND, dtype=torch.double) for i in both]
    return PackedGraphs.of(x, both, bonds)


Given = tuple[Tensor, Graph, dict[str, Any]]


def inputs(name: str, which: list[int], conditions: Tensor) -> Given:
    """Features, the graph and what is given by name, of a batch of these graphs."""
    stored = replace(packed(), shared=layers.shares_nodes(small(name)))
    x, graph, members, bonds = stored.take(torch.tensor(which))
    more = {"edge_width": ("edge_attr", bonds), "global_width": ("global_attr", conditions[which])}
    return x, graph, {"batch": members, **dict(more[width] for width in widths(name))}


def answer(name: str, model: Any, which: list[int], conditions: Tensor) -> Tensor:
    torch.manual_seed(3)
    x, graph, given = inputs(name, which, conditions)
    return model(x, graph, **given)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_a_batch_gives_what_each_graph_alone_gives(name: str) -> None:
    model, conditions = small(name), torch.randn(3, CONDITION, dtype=torch.double)
    together = answer(name, model, [2, 0, 1, 2], conditions)
    for row, one in enumerate([2, 0, 1, 2]):
        alone = answer(name, model, [one], conditions)[0]
        torch.testing.assert_close(together[row], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_sizes_are_as_good_as_their_graph_and_one_graph_needs_none(name: str) -> None:
    model, conditions = small(name), torch.randn(3, CONDITION, dtype=torch.double)
    x, graph, given = inputs(name, [0, 1, 2], conditions)
    by_sizes = model(x, graph, **given | {"batch": SIZES})
    torch.testing.assert_close(by_sizes, model(x, graph, **given), rtol=0, atol=1e-12)
    x, graph, given = inputs(name, [2], conditions)
    alone = model(x, graph, **given | {"batch": None}).view(1, -1)
    torch.testing.assert_close(alone, model(x, graph, **given), rtol=0, atol=1e-12)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_nodes_and_edges_in_another_order_change_nothing(name: str) -> None:
    by_number = {"degree": 0} if name == "exphormer" else {}  # its expander, which is left out
    model, conditions = small(name, **by_number), torch.randn(3, CONDITION, dtype=torch.double)
    x, graph, given = inputs(name, [0, 1, 2], conditions)
    order = torch.cat([torch.randperm(3), torch.tensor([3]), 4 + torch.randperm(5)])
    edge_order = torch.randperm(graph.num_edges)
    renumbered = graphs.edges(order.argsort()[graph.edge_index[:, edge_order]], len(x))
    moved_bonds = {k: v[edge_order] for k, v in given.items() if k == "edge_attr"}
    of_vectors = (Laplacian, LearnedSpectrum, NodeIdentifiers)  # whose signs and bases are free
    codes = {k: e.code(graph) for k, e in model.encodings().items() if isinstance(e, of_vectors)}
    moved_codes = {k: code[order] for k, code in codes.items()}
    moved = model(x[order], renumbered, **given | moved_bonds | moved_codes)
    expected = model(x, graph, **given | codes)
    torch.testing.assert_close(moved, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_codes_may_be_computed_before(name: str) -> None:
    model, conditions = small(name), torch.randn(3, CONDITION, dtype=torch.double)
    x, graph, given = inputs(name, [0, 1, 2], conditions)
    known = {keyword: encoding.code(graph) for keyword, encoding in model.encodings().items()}
    expected = model(x, graph, **given)
    torch.testing.assert_close(model(x, graph, **given, **known), expected, rtol=0, atol=0)
    for keyword, code in known.items():  # and are what is read
        changed = model(x, graph, **given, **known | {keyword: torch.zeros_like(code)})
        assert (changed - expected).abs().max() > 1e-6
        for wrong in (code[1:], code[:, None], code.tolist()):
            came = str(list(wrong.shape)) if isinstance(wrong, torch.Tensor) else "list"
            with refused(keyword, expected=f"{list(code.shape)}", got=came, remedy="code(graph)"):
                model(x, graph, **given, **known | {keyword: wrong})


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("name", [n for n in models.READOUT_MODELS if takes_bonds(n)])
@pytest.mark.parametrize("argument", ["edge_attr", "global_attr"])
def test_bonds_and_conditions_matter(name: str, argument: str) -> None:
    model, conditions = small(name), torch.randn(3, CONDITION, dtype=torch.double)
    x, graph, given = inputs(name, [0, 2], conditions)
    if argument not in given:
        pytest.skip("it has none")
    before = model(x, graph, **given)
    changed = model(x, graph, **given | {argument: given[argument] + 1})
    assert (changed - before).abs().min() > 1e-6


@pytest.mark.parametrize("name", models.READOUT_MODELS)
def test_a_batch_of_one_node_can_be_trained_on(name: str) -> None:
    model, conditions = small(name).train(), torch.randn(3, CONDITION, dtype=torch.double)
    x, graph, given = inputs(name, [1], conditions)
    out = model(x, graph, **given)
    assert out.isfinite().all()
    out.sum().backward()
    assert not any(value.isnan().any() for value in model.buffers())


def test_descriptors_matter() -> None:
    torch.manual_seed(0)
    model = models.molecule_transformer(
        IN, OUT, edge_width=BOND, global_width=CONDITION, descriptor_width=5
    )
    conditions = torch.randn(3, CONDITION, dtype=torch.double)
    x, graph, given = inputs("molecule_transformer", [0, 2], conditions)
    described = torch.randn(2, 5, dtype=torch.double)
    model = model.double().eval()
    before = model(x, graph, **given, descriptors=described)
    assert (model(x, graph, **given, descriptors=described + 1) - before).abs().min() > 1e-6
    with refused("descriptors", expected="per molecule", got="none", remedy="pass this argument"):
        model(x, graph, **given)
