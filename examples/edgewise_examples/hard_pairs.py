"""Pairs of similar graphs that are not isomorphic, and the encodings that distinguish them.

An encoding has one value for each node, pair of nodes or eigenvalue. It distinguishes two graphs if
these values, sorted, differ. They are sorted because the nodes of a graph have no order.

Papers: Xu et al., How powerful are graph neural networks?, 2019; Sato, A survey on the expressive
power of graph neural networks, 2020; Zhang et al., Rethinking the expressive power of GNNs via
graph biconnectivity, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.encodings.distances import resistance_distances, shortest_paths
from edgewise.encodings.laplacian import laplacian_spectrum
from edgewise.encodings.members import member_sizes
from edgewise.encodings.random_walk import random_walk_probabilities
from edgewise.encodings.weisfeiler_lehman import wl_colors
from edgewise.graphs import Graph, batch, edges

ROUNDING = 1e-4  # Values that differ by less count as equal.
STEPS = 20  # Maximum number of steps of a random walk.


class Drawn(NamedTuple):
    """Graph with the coordinates of its nodes, for drawing."""

    graph: Graph
    places: Tensor


def hard_pairs() -> dict[str, tuple[Drawn, Drawn]]:
    """Return five pairs of graphs by name, from easy to hard to distinguish.

    - a ring of six, and two triangles
    - two molecules of two rings
    - two circulant graphs
    - two cubic graphs with equal distances
    - two strongly regular graphs, which no encoding in :data:`LOOKS` distinguishes
    """
    return {
        "C6, 2 C3": (ring(6), _drawn(6, [*_cycle(3), *_cycle(3, 3)])),
        "decalin, bicyclopentyl": (
            _drawn(10, [*_cycle(10), (0, 5)]),
            _drawn(10, [*_cycle(5), *_cycle(5, 5), (0, 5)]),
        ),
        "CSL(8, 2), CSL(8, 3)": (ring(8, 2), ring(8, 3)),
        "dodecahedron, Desargues": (petersen(10, 2), petersen(10, 3)),
        "rook 4 × 4, Shrikhande": (rook(), shrikhande()),
    }


def ring(n: int, skip: int = 1) -> Drawn:
    """Return a ring of n nodes, each of which is also linked to the nodes ``skip`` steps away."""
    return _drawn(n, [*_cycle(n), *((i, (i + skip) % n) for i in range(n))])


def petersen(n: int, skip: int) -> Drawn:
    """Return a generalised Petersen graph: a ring of n nodes, n spokes and n inner nodes.

    Each inner node is linked to the inner nodes ``skip`` steps away.
    """
    spokes = [(i, n + i) for i in range(n)]
    star = [(n + i, n + (i + skip) % n) for i in range(n)]
    drawn = _drawn(2 * n, [*_cycle(n), *spokes, *star])
    circle = _circle(n)
    return drawn._replace(places=torch.cat([circle, 0.55 * circle]))


def rook() -> Drawn:
    """Return the 4 × 4 rook's graph: all squares in the same row or column are linked."""
    squares = [(i, j) for i in range(16) for j in range(i) if i // 4 == j // 4 or i % 4 == j % 4]
    return _drawn(16, squares)


def shrikhande() -> Drawn:
    """Return the Shrikhande graph: a 4 × 4 torus with links down, right and down-right."""
    moves = ((0, 1), (1, 0), (1, 1))
    return _drawn(
        16,
        [
            (4 * i + j, 4 * ((i + down) % 4) + (j + right) % 4)
            for i in range(4)
            for j in range(4)
            for down, right in moves
        ],
    )


LOOKS: dict[str, Callable[[Graph], list[object]]] = {
    "WL colours": lambda graph: _of_nodes(wl_colors(graph, 40), graph),
    "shortest paths": lambda graph: _of_pairs(shortest_paths(graph), graph),
    "resistances": lambda graph: _of_pairs(resistance_distances(graph), graph),
    "Laplacian spectrum": lambda graph: _rows(
        laplacian_spectrum(graph, int(member_sizes(graph).max())).split(1)
    ),
    "20-step walks": lambda graph: _of_nodes(random_walk_probabilities(graph, STEPS), graph),
}
"""Dict from names of encodings to functions, which return the sorted values for each graph."""


def tells_apart(by: str, graph: Graph, other: Graph) -> bool:
    """Return whether the encoding ``by`` (a key of :data:`LOOKS`) distinguishes two graphs."""
    first, second = LOOKS[by](batch([graph, other]))
    return first != second


def _of_nodes(code: Tensor, graph: Graph) -> list[object]:
    return _rows(code.view(len(code), -1).split(member_sizes(graph).tolist()))


def _rows(codes: Iterable[Tensor]) -> list[object]:
    """Return the sorted rows of each tensor; two multisets are equal if these are equal."""
    return [sorted(map(tuple, _rounded(code).tolist())) for code in codes]


def _of_pairs(code: Tensor, graph: Graph) -> list[object]:
    """Return for each graph a sorted list, with the sorted values of each node's pairs."""
    sizes = member_sizes(graph)
    codes = _rounded(code).split(sizes.square().tolist())
    return [
        sorted(sorted(row) for row in code_of_graph.view(n, n).tolist())
        for code_of_graph, n in zip(codes, sizes.tolist(), strict=True)
    ]


def _rounded(code: Tensor) -> Tensor:
    return (code.double() / ROUNDING).round()


def _drawn(n: int, pairs: Iterable[tuple[int, int]]) -> Drawn:
    distinct = sorted({(min(pair), max(pair)) for pair in pairs})
    causal = torch.tensor(distinct).T
    return Drawn(edges(torch.cat([causal, causal.flip(0)], dim=1), n), _circle(n))


def _cycle(n: int, first: int = 0) -> list[tuple[int, int]]:
    return [(first + i, first + (i + 1) % n) for i in range(n)]


def _circle(n: int) -> Tensor:
    angle = torch.arange(n) * (2 * math.pi / n)
    return torch.stack([angle.sin(), angle.cos()], dim=1)
