"""Every pattern and every composition agrees in all its views, for every n up to 8."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise import graphs
from tests.errors import case, refused
from tests.graphs import algebra
from tests.graphs.specification import (
    BIPARTITE,
    PATTERNS,
    REPRESENTATIVES,
    SIZES,
    SQUARE,
    Spec,
    batch,
    multiset,
)
from tests.graphs.views import check, check_graph

ALL_SIZES = [(targets, sources) for targets in SIZES for sources in SIZES]
EVERY = [*PATTERNS, multiset(), batch(PATTERNS[0]), batch(PATTERNS[2])]


def test_every_listed_pattern_is_specified() -> None:
    specified = {str(spec).split("(")[0] for spec in PATTERNS} | {"virtual"}
    assert specified == set(graphs.PATTERNS)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("spec", EVERY, ids=str)
def test_pattern(spec: Spec) -> None:
    for sizes in ALL_SIZES:
        check(spec, *sizes, copies=spec.name == "edges")


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("sign", algebra.BINARY)
@pytest.mark.parametrize("left", REPRESENTATIVES, ids=str)
def test_composition_of_two(left: Spec, sign: str) -> None:
    for right in REPRESENTATIVES:
        for sizes in SQUARE + BIPARTITE:
            check(algebra.compose(left, sign, right), *sizes)


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("spec", [*PATTERNS, multiset(), batch(PATTERNS[2])], ids=str)
def test_operation(spec: Spec) -> None:
    for operation in algebra.UNARY:
        changed = operation(spec)
        copies = spec.name == "edges" and ".power" not in changed.name
        for sizes in SQUARE + BIPARTITE:
            check(changed, *sizes, copies=copies)


@pytest.mark.slow(every=7)
@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_operation_on_the_graph_is_that_on_the_pattern(spec: Spec) -> None:
    for method in algebra.UNARY[:-6]:
        changed = method(Spec(spec.name, spec.bind, spec.matrix))
        for sizes in [(t, s) for t, s in SQUARE + BIPARTITE if spec.matrix(t, s) is not None]:
            if changed.name.endswith("transpose()"):
                check(changed, *sizes[::-1])
            else:
                check(changed, *sizes)


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("spec", PATTERNS, ids=str)
def test_batch(spec: Spec) -> None:
    sizes: list[int]
    for sizes in ([], [0], [3], [2, 0, 3], [1, 1, 1], [4, 4]):
        with case(sizes):
            check(algebra.batch_of(spec, sizes), sum(sizes), sum(sizes))


@pytest.mark.parametrize("left", PATTERNS[:14], ids=str)
def test_batch_of_a_union_keeps_its_parts(left: Spec) -> None:
    both = algebra.compose(left, "|", PATTERNS[3])
    for sizes in ([2, 0, 3], [4, 4]):
        check(algebra.batch_of(both, sizes), sum(sizes), sum(sizes))


def test_batch_of_graphs_is_block_diagonal() -> None:
    members = [PATTERNS[0].bind(2, 3), multiset().bind(3, 3), PATTERNS[1].bind(0, 2)]
    packed = graphs.batch(members)
    matrix = algebra.block_diagonal([member.dense() for member in members])
    assert matrix is not None
    check_graph(packed, matrix, copies=True)
    assert packed.num_edges == sum(member.num_edges for member in members)


@pytest.mark.parametrize("sizes", [[], [0], [3], [2, 0, 3], [0, 0]], ids=str)
def test_membership(sizes: list[int]) -> None:
    graph = graphs.membership(sizes)
    assert graph.in_degree().tolist() == sizes
    assert graph.source.tolist() == list(range(sum(sizes)))
    check_graph(graph, graph.dense())


leaves = st.sampled_from(PATTERNS)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.builds(algebra.compose, inner, st.sampled_from([*algebra.BINARY]), inner)
        | st.builds(lambda operation, spec: operation(spec), st.sampled_from(algebra.UNARY), inner)
    ),
    max_leaves=5,
)


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(trees, st.sampled_from(SQUARE + BIPARTITE))
def test_nested_compositions(spec: Spec, sizes: tuple[int, int]) -> None:
    check(spec, *sizes)
    pattern = spec.pattern(*sizes)
    assert graphs.parse(repr(pattern)) == pattern


def test_a_graph_under_other_numbers_has_all_views() -> None:
    graph = (graphs.window(2) | graphs.hubs([0])).bind(5, 7)
    target_perm, source_perm = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([6, 2, 0, 1, 5, 4, 3])
    matrix = torch.zeros(5, 7, dtype=torch.bool)
    matrix[target_perm[:, None], source_perm] = graph.dense()
    check_graph(graphs.Permuted(graph, target_perm, source_perm), matrix)
    twice = graphs.edges(torch.tensor([[1, 1], [0, 0]]), 2)
    copies = graphs.Permuted(twice, torch.tensor([1, 0]), torch.tensor([0, 1]))
    check_graph(copies, torch.tensor([[False, False], [False, True]]), copies=True)


@pytest.mark.parametrize("name", ["target_perm", "source_perm"])
def test_a_node_for_each_place(name: str) -> None:
    good = {"target_perm": torch.arange(5), "source_perm": torch.arange(7)}
    for wrong in (good[name][1:], good[name].double(), good[name].int(), good[name][None]):
        length, got = f"[{len(good[name])}]", f"{wrong.dtype} of shape {list(wrong.shape)}"
        with refused(name, expected=length, got=got, remedy="new number of each node"):
            graphs.Permuted(graphs.window(2).bind(5, 7), **{**good, name: wrong})
    with refused("graph", expected="fixed number", got="window(2)", remedy=".bind"):
        graphs.Permuted(graphs.window(2), **good)
