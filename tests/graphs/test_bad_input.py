"""Graphs that cannot be: what the errors say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import edgewise as ew
from edgewise import ArgumentError, graphs
from edgewise._utils.errors import counted
from edgewise.graphs import Pattern
from tests.errors import refused

EDGES = {
    "too large": ([[0, 1, 2], [0, 5, 1]], 3, "targets from 0 to 2 (3 nodes)", "target 5 at edge 1"),
    "negative": ([[0, -1], [0, 0]], 3, "sources from 0 to 2 (3 nodes)", "source -1 at edge 1"),
    "bipartite": ([[3], [3]], (4, 2), "targets from 0 to 1 (2 nodes)", "target 3 at edge 0"),
    "no nodes": ([[0], [0]], 0, "(0 nodes)", "source 0 at edge 0"),
}


@pytest.mark.parametrize(("pairs", "nodes", "expected", "got"), EDGES.values(), ids=EDGES)
def test_an_edge_out_of_range(pairs: Any, nodes: Any, expected: str, got: str) -> None:
    with refused("edge_index", expected=expected, got=got, remedy="larger num_nodes"):
        graphs.edges(torch.tensor(pairs), nodes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64], ids=str)
def test_edges_that_are_not_integers(dtype: torch.dtype) -> None:
    with refused("edge_index", expected="integers", got=str(dtype), remedy=".long()"):
        graphs.edges(torch.zeros(2, 3, dtype=dtype), 3)


@pytest.mark.parametrize("edge_index", [torch.zeros(3, 2), torch.zeros(4), [[0], [1]]], ids=str)
def test_edges_of_another_shape(edge_index: Any) -> None:
    got = "list" if isinstance(edge_index, list) else str(list(edge_index.shape))
    with refused("edge_index", expected="[2, E]", got=got, remedy="sources in row 0"):
        graphs.edges(edge_index, 3)


@pytest.mark.parametrize("nodes", [-1, 2.5, (3, -1), [3, 3]], ids=str)
def test_a_number_of_nodes_that_is_none(nodes: Any) -> None:
    wrong = nodes[1] if isinstance(nodes, tuple) else nodes
    with refused("num_nodes", expected="integer", got=repr(wrong), remedy="(num_sources"):
        graphs.edges(torch.empty(2, 0, dtype=torch.long), nodes)


COUNTS: dict[str, tuple[Callable[[Any], Pattern], str, int]] = {
    "window": (graphs.window, "radius", 0),
    "dilation": (lambda k: graphs.window(1, k), "dilation", 1),
    "blocks": (graphs.blocks, "size", 1),
    "random": (graphs.random, "degree", 0),
    "seed": (lambda k: graphs.random(1, k), "seed", 0),
    "power": (graphs.window(1).power, "k", 1),
    "expand": (lambda size: graphs.expand(graphs.complete(), size), "size", 1),
    "virtual": (lambda k: graphs.virtual(graphs.complete(), k), "count", 0),
    "height": (lambda k: graphs.grid(k, 2), "height", 0),
    "width": (lambda k: graphs.grid(2, k), "width", 0),
}


@pytest.mark.parametrize(("make", "argument", "least"), COUNTS.values(), ids=COUNTS)
def test_a_number_that_is_too_small_or_not_whole(
    make: Callable[[Any], Pattern], argument: str, least: int
) -> None:
    make(least)
    for wrong in (least - 1, 1.5, "2", None):
        with refused(argument, expected=f"integer of at least {least}", got=repr(wrong), remedy=""):
            make(wrong)


CANNOT_BIND = {
    "causal()": (graphs.causal(), 3, 2),
    "window(1)": (graphs.window(1), 3, 2),
    "blocks(2)": (graphs.blocks(2), 1, 0),
    "hubs([4])": (graphs.hubs([4]), 4, 4),
    "hubs([-5])": (graphs.hubs([-5]), 4, 4),
    "grid(2, 3)": (graphs.grid(2, 3), 7, 7),
    "tree([-1, 0])": (graphs.tree([-1, 0]), 3, 3),
    "(window(1)).power(2)": (graphs.window(1).power(2), 2, 3),
    "expand(complete(), 2)": (graphs.expand(graphs.complete(), 2), 2, 1),
    "subgraphs(causal(), [(2,)])": (graphs.subgraphs(graphs.causal(), [[2]]), 3, 3),
    "virtual(causal(), count=3)": (graphs.virtual(graphs.causal(), 3), 2, 2),
}


@pytest.mark.parametrize("name", CANNOT_BIND)
def test_a_pattern_that_cannot_bind_names_itself_and_the_sizes(name: str) -> None:
    pattern, targets, sources = CANNOT_BIND[name]
    got = f"{counted(targets, 'target')} and {counted(sources, 'source')}"
    with refused("graph", expected=f"for {name}", got=got, remedy="another pattern"):
        pattern.bind(targets, sources)


@pytest.mark.parametrize("members", [3, [0, 1], [[0], [-1]], [[0.7]], [[None]], ["01"]], ids=str)
def test_members_of_subgraphs_that_are_none(members: Any) -> None:
    with refused(
        "members",
        expected="for each subgraph a list of its nodes",
        got="",
        remedy="[[0, 1], [1, 2]]",
    ):
        graphs.subgraphs(graphs.complete(), members)


def test_a_graph_of_another_size() -> None:
    graph = graphs.edges(torch.tensor([[0], [1]]), 2)
    with refused(
        "graph", expected="3 targets", got="2 nodes, 1 edges", remedy="nodes that the features have"
    ):
        graph.bind(3)
    with pytest.raises(ArgumentError, match="5 nodes"):
        graph | graphs.complete().bind(5)


def test_a_composition_with_what_is_no_graph() -> None:
    for compose in ("__or__", "__and__", "__sub__"):
        with refused("graph", expected="a graph or a pattern", got="int", remedy="graphs.edges"):
            getattr(graphs.window(1), compose)(3)


PARENTS = {"cycle": [1, 2, 0], "own": [0], "out of range": [-1, 5], "negative": [-1, -2]}


@pytest.mark.parametrize("parents", PARENTS.values(), ids=PARENTS)
def test_parents_that_make_no_tree(parents: list[int]) -> None:
    with refused(
        "parents", expected="without a cycle", got="chain of parents [", remedy="each cycle"
    ):
        graphs.tree(parents)


def test_choices_that_are_none() -> None:
    with refused("neighbours", expected="4, or 8", got="6", remedy="power"):
        graphs.grid(2, 2, 6)
    with refused("reads", expected="both, children, parent", got="'up'", remedy="choose one"):
        graphs.tree([-1], reads="up")


def test_sizes_of_a_batch() -> None:
    with refused("sizes", expected="each graph", got="None", remedy="list of graphs"):
        graphs.batch(graphs.complete())
    for make in (graphs.membership, lambda sizes: graphs.batch(graphs.complete(), sizes)):
        for wrong, got in (([2, -1], "-1"), ([1.5], "1.5"), (torch.tensor([2.0]), "2.0")):
            with refused("sizes", expected="at least 0", got=got, remedy="number of nodes"):
                make(wrong)
    with refused("source_sizes", expected="has, 2", got="1", remedy="each graph"):
        graphs.batch(graphs.complete(), [1, 2], [3])
    with refused("graph", expected="fixed number", got="window(1)", remedy=".bind("):
        graphs.batch([graphs.window(1)])


TEXTS = ["", "window(", "3", "window(1) | 3", "window(1, 2, 3)", "window", "a.power(2)", "[1]"]


@pytest.mark.parametrize("text", [*TEXTS, "__import__('os')", "window(1).bind(3)", "1 | 2"])
def test_a_text_that_is_no_pattern(text: str) -> None:
    with pytest.raises(ArgumentError, match="graph"):
        graphs.parse(text)


def test_an_unknown_pattern_has_a_nearest_name() -> None:
    with refused("graph", expected="causal, complete", got="'windw'", remedy="'window'"):
        graphs.parse("windw(3)")


NOT_GRAPHS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "mask": (lambda: torch.ones(3, 3, dtype=torch.bool), "torch.bool", "graphs.from_dense(mask)"),
    "added mask": (lambda: torch.zeros(3, 3), "[3, 3]", "graphs.from_dense(mask == 0)"),
    "mask of two": (lambda: torch.ones(2, 2, dtype=torch.bool), "[2, 2]", "graphs.from_dense"),
    "numbers of two": (lambda: torch.ones(2, 2), "[2, 2]", "graphs.from_dense"),
    "adjacency": (lambda: torch.ones(3, 3, dtype=torch.long), "[3, 3]", "graphs.from_dense"),
    "batched mask": (lambda: torch.ones(4, 3, 3), "[4, 3, 3]", "[num_targets, num_sources]"),
    "edges": (lambda: torch.zeros(2, 5, dtype=torch.long), "[2, 5]", "graphs.edges(edge_index"),
    "class": (lambda: graphs.causal, "the class Causal", "graphs.causal(...)"),
    "text": (lambda: "causal()", "'causal()'", "graphs.parse"),
    "none": (lambda: None, "NoneType", "graphs.edges"),
    "list": (lambda: [[0], [1]], "list", "graphs.edges"),
}


@pytest.mark.parametrize("name", NOT_GRAPHS)
def test_what_is_no_graph_is_told_how_to_become_one(name: str) -> None:
    make, got, remedy = NOT_GRAPHS[name]
    x = torch.randn(3, 1, 2)
    with refused("graph", expected="a graph or a pattern", got=got, remedy=remedy):
        ew.attend(x, x, x, make())
    with refused("mask", expected="a graph or a pattern", got=got, remedy=remedy):
        graphs.check_graph(make(), "mask")


def test_a_graph_is_given_as_it_is() -> None:
    graph = graphs.causal().bind(3)
    assert graphs.check_graph(graph) is graph


def test_what_other_libraries_hold_is_told_how_to_become_a_graph() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    networkx = pytest.importorskip("networkx")
    geometric = pytest.importorskip("torch_geometric")
    pairs = torch.tensor([[0, 1], [1, 0]])
    for thing, remedy in (
        (scipy.eye_array(3), "graphs.from_scipy"),
        (scipy.csr_matrix((3, 3)), "graphs.from_scipy"),
        (networkx.path_graph(3), "graphs.from_networkx"),
        (geometric.data.Data(edge_index=pairs, num_nodes=2), "graphs.from_pyg"),
        (geometric.EdgeIndex(pairs, sparse_size=(2, 2)), "graphs.from_pyg"),
    ):
        with refused("graph", expected="a graph or a pattern", got="", remedy=remedy):
            graphs.check_graph(thing)


def test_hubs_that_are_no_list() -> None:
    with refused("nodes", expected="a list", got="0", remedy="hubs([0])"):
        graphs.hubs(0)  # type: ignore[arg-type]


def test_booleans_of_numpy_are_those_of_python() -> None:
    pattern = graphs.hubs([0], reads=np.bool_(False), is_read=np.bool_(True))  # type: ignore[arg-type]
    assert pattern == graphs.hubs([0], reads=False)
    assert repr(pattern) == repr(graphs.hubs([0], reads=False))
    with refused("reads", expected="True or False", got="2", remedy="one list"):
        graphs.hubs([0], 2)  # type: ignore[arg-type]
