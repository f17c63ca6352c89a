"""Pairs of similar graphs that are not isomorphic, and the encodings that distinguish them.

An encoding distinguishes two graphs if its values for them differ as multisets over nodes, pairs or
eigenvalues. Multisets are compared because the nodes of a graph have no order.

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

ROUNDING = 1e-4  # values that differ by less are equal
STEPS = 20  # length of a random walk


class Drawn(NamedTuple):
    """Graph, and the coordinates at which its nodes are drawn."""

    graph: Graph
    places: Tensor


def hard_pairs() -> dict[str, tuple[Drawn, Drawn]]:
    """Return five pairs, ordered from easy to hard to distinguish.

    They are a ring of six and two triangles; two molecules of two rings; two circulant graphs; two
    cubic graphs with equal distances; and two strongly regular graphs, which none of :data:`LOOKS`
    distinguishes.
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
    """Return a ring of n nodes, each also linked to the nodes ``skip`` steps away."""
    return _drawn(n, [*_cycle(n), *((i, (i + skip) % n) for i in range(n))])


def petersen(n: int, skip: int) -> Drawn:
    """Return the generalised Petersen graph: a ring of n, n spokes, and a star inside."""
    spokes = [(i, n + i) for i in range(n)]
    star = [(n + i, n + (i + skip) % n) for i in range(n)]
    one = _drawn(2 * n, [*_cycle(n), *spokes, *star])
    circle = _circle(n)
    return one._replace(places=torch.cat([circle, 0.55 * circle]))


def rook() -> Drawn:
    """Return the rook's graph of a 4 × 4 board, with links along rows and columns."""
    squares = [(i, j) for i in range(16) for j in range(i) if i // 4 == j // 4 or i % 4 == j % 4]
    return _drawn(16, squares)


def shrikhande() -> Drawn:
    """Return the Shrikhande graph: a 4 × 4 torus with links down, right and diagonally."""
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
"""Functions from a packed batch to the multiset of an encoding's values in each graph."""


def tells_apart(by: str, one: Graph, other: Graph) -> bool:
    """Return whether an encoding, a name of :data:`LOOKS`, distinguishes two graphs."""
    first, second = LOOKS[by](batch([one, other]))
    return first != second


def _of_nodes(code: Tensor, graph: Graph) -> list[object]:
    return _rows(code.view(len(code), -1).split(member_sizes(graph).tolist()))


def _rows(parts: Iterable[Tensor]) -> list[object]:
    """Return the sorted rows of each part, which represent a multiset."""
    return [sorted(map(tuple, _rounded(part).tolist())) for part in parts]


def _of_pairs(code: Tensor, graph: Graph) -> list[object]:
    """Return for each graph the sorted list of the sorted values that each node has with others."""
    sizes = member_sizes(graph)
    parts = _rounded(code).split(sizes.square().tolist())
    return [
        sorted(sorted(row) for row in part.view(n, n).tolist())
        for part, n in zip(parts, sizes.tolist(), strict=True)
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
