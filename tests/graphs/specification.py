"""What every pattern means, written apart from the package: a predicate and boolean matrices.

A predicate ``reads(position, source, num_sources)`` says whether the target at that position reads
that source. Where the targets are fewer than the sources they are the last positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from edgewise import graphs
from edgewise.graphs import Graph, Pattern

Reads = Callable[[int, int, int], bool]
Matrix = Tensor | None  # None: the pattern does not exist at these sizes
SIZES = range(9)
SQUARE = [(n, n) for n in SIZES]
BIPARTITE = [(0, 3), (1, 4), (3, 5), (1, 8), (7, 8), (5, 3), (4, 0)]


@dataclass(frozen=True)
class Spec:
    """A pattern, and what it means: the matrix at (targets, sources)."""

    name: str
    pattern: Callable[[int, int], Pattern]
    matrix: Callable[[int, int], Matrix]

    def bind(self, targets: int, sources: int) -> Graph:
        return self.pattern(targets, sources).bind(targets, sources)

    def __str__(self) -> str:
        return self.name


def anywhere(_targets: int, _sources: int) -> bool:
    return True


def positional(targets: int, sources: int) -> bool:
    return targets <= sources


def of_size(n: int) -> Callable[[int, int], bool]:
    return lambda targets, sources: targets == sources == n


def spec(text: str, reads: Reads, exists: Callable[[int, int], bool] = positional) -> Spec:
    pattern = graphs.parse(text)

    @cache
    def matrix(targets: int, sources: int) -> Matrix:
        if not exists(targets, sources):
            return None
        ahead = sources - targets
        rows = [[reads(i + ahead, j, sources) for j in range(sources)] for i in range(targets)]
        return torch.tensor(rows, dtype=torch.bool).reshape(targets, sources)

    return Spec(text, lambda _t, _s: pattern, matrix)


def window(radius: int, dilation: int = 1) -> Spec:
    return spec(
        f"window({radius}, {dilation})",
        lambda i, j, _: abs(i - j) <= radius * dilation and (i - j) % dilation == 0,
    )


def blocks(size: int) -> Spec:
    return spec(f"blocks({size})", lambda i, j, _: i // size == j // size)


def expand(blocks: Spec, size: int) -> Spec:
    """Position i is in block i // size; the blocks of the targets are the last of all blocks."""

    def numbers(targets: int, sources: int) -> tuple[Tensor, Tensor]:
        block = torch.arange(sources) // size
        own = block[sources - targets :]
        return own - (sources - targets) // size, block

    def counts(targets: int, sources: int) -> tuple[int, int]:
        count = -(-sources // size)
        return (count - (sources - targets) // size if targets else 0), count

    def matrix(targets: int, sources: int) -> Matrix:
        if targets > sources:
            return None
        inner = blocks.matrix(*counts(targets, sources))
        if inner is None:
            return None
        own, block = numbers(targets, sources)
        return inner[own][:, block]

    def pattern(targets: int, sources: int) -> Pattern:
        return graphs.expand(blocks.pattern(*counts(targets, sources)), size)

    return Spec(f"expand({blocks}, {size})", pattern, matrix)


def hubs(*nodes: int, reads: bool = True, is_read: bool = True) -> Spec:
    def related(i: int, j: int, n: int) -> bool:
        hub = [node % n for node in nodes]
        return (reads and i in hub) or (is_read and j in hub)

    def exists(targets: int, sources: int) -> bool:
        return targets <= sources and all(-sources <= node < sources for node in nodes)

    return spec(f"hubs({list(nodes)}, {reads}, {is_read})", related, exists)


def grid(height: int, width: int, neighbours: int = 4) -> Spec:
    def reads(i: int, j: int, _: int) -> bool:
        down, right = abs(i // width - j // width), abs(i % width - j % width)
        return down + right == 1 or (neighbours == 8 and down == right == 1)

    return spec(f"grid({height}, {width}, {neighbours})", reads, of_size(height * width))


def tree(parents: list[int], reads: str) -> Spec:
    def related(i: int, j: int, _: int) -> bool:
        up = reads in ("parent", "both") and parents[i] == j
        return up or (reads in ("children", "both") and parents[j] == i)

    return spec(f"tree({parents}, {reads!r})", related, of_size(len(parents)))


def subgraphs(inner: Spec, members: list[list[int]]) -> Spec:
    """Of a pattern that is square at any size."""
    count = len(members)

    def reads(i: int, j: int, n: int) -> bool:
        if i < count or j < count:
            token, node = min(i, j), max(i, j) - count
            return i == j or node in members[token]
        within = inner.matrix(n - count, n - count)
        assert within is not None
        return bool(within[i - count, j - count])

    def exists(targets: int, sources: int) -> bool:
        least = count + max((node + 1 for nodes in members for node in nodes), default=0)
        return targets == sources >= least

    return spec(f"subgraphs({inner}, {members})", reads, exists)


def random(degree: int, seed: int) -> Spec:
    """Known by its edges alone; that they are what was asked for is tested in test_random."""
    text = f"random({degree}, {seed})"
    pattern = graphs.parse(text)
    return Spec(text, lambda _t, _s: pattern, lambda t, s: from_pairs(pattern.bind(t, s)) > 0)


def expander(degree: int, seed: int) -> Spec:
    """Likewise; square alone."""
    text = f"expander({degree}, {seed})"
    pattern = graphs.parse(text)

    def matrix(targets: int, sources: int) -> Matrix:
        return from_pairs(pattern.bind(targets, sources)) > 0 if targets == sources else None

    return Spec(text, lambda _t, _s: pattern, matrix)


def multiset(num_edges: int = 12) -> Spec:
    """Explicit edges, some of them twice, in no order."""

    def graph(targets: int, sources: int) -> Pattern:
        count = num_edges if targets * sources else 0
        number = torch.arange(count)
        source, target = number * 5 % max(sources, 1), number * number % max(targets, 1)
        return graphs.edges(torch.stack([source, target]), (sources, targets))

    return Spec("edges", graph, lambda t, s: from_pairs(graph(t, s).bind(t, s)) > 0)


def batch(member: Spec) -> Spec:
    """As many members as fit, of sizes 3, 0 and 1 in turn, square or with twice the sources."""

    def sizes(targets: int, sources: int) -> tuple[list[int], list[int]] | None:
        chosen: list[int] = []
        while sum(chosen) < targets:
            chosen.append(min((3, 0, 1)[len(chosen) % 3], targets - sum(chosen)))
        if sources == targets:
            return chosen, chosen
        return (chosen, [2 * size for size in chosen]) if sources == 2 * targets else None

    def matrix(targets: int, sources: int) -> Matrix:
        chosen = sizes(targets, sources)
        return chosen and block_diagonal(
            [member.matrix(*pair) for pair in zip(*chosen, strict=True)]
        )

    def graph(targets: int, sources: int) -> Pattern:
        pattern, chosen = member.pattern(targets, sources), sizes(targets, sources)
        return graphs.batch(pattern, *chosen) if chosen else graphs.batch(pattern, [])

    return Spec(f"batch({member})", graph, matrix)


def from_pairs(graph: Graph) -> Tensor:
    """How often each pair is an edge, ``[targets, sources]``."""
    counts = torch.zeros(graph.num_targets, graph.num_sources, dtype=torch.long)
    source, target = graph.edge_index
    return counts.index_put_((target, source), torch.ones_like(source), accumulate=True)


def block_diagonal(members: list[Matrix]) -> Matrix:
    if any(member is None for member in members):
        return None
    whole = torch.block_diag(*[member.long() for member in members if member is not None])
    rows = sum(member.shape[0] for member in members if member is not None)
    columns = sum(member.shape[1] for member in members if member is not None)
    return whole.bool().reshape(rows, columns) if members else torch.zeros(0, 0, dtype=torch.bool)


PATTERNS = [
    spec("complete()", lambda _i, _j, _n: True, anywhere),
    spec("empty()", lambda _i, _j, _n: False, anywhere),
    spec("causal()", lambda i, j, _: j <= i),
    *[window(r, d) for r, d in [(0, 1), (1, 1), (3, 1), (9, 1), (0, 2), (1, 2), (2, 3), (1, 9)]],
    *[blocks(size) for size in (1, 2, 3, 8, 20)],
    *[hubs(*nodes) for nodes in [(), (0,), (-1,), (2,), (0, 1), (0, -1), (1, 4), (5, 2, 3, 2)]],
    *[
        hubs(0, 3, -1, reads=a, is_read=b)
        for a, b in [(True, False), (False, True), (False, False)]
    ],
    *[grid(h, w) for h, w in [(0, 3), (1, 1), (1, 5), (4, 1), (2, 3), (2, 4)]],
    *[grid(h, w, 8) for h, w in [(1, 4), (2, 2), (3, 2), (2, 4)]],
    *[tree([], "both"), tree([-1], "both"), tree([-1, 0, 0, 1, 1, 2], "both")],
    *[tree([3, 3, -1, -1, 0], reads) for reads in ("parent", "children", "both")],
    *[subgraphs(window(1), members) for members in ([], [[]], [[1, 0, 1], [], [1, 3]])],
    subgraphs(hubs(0), [[2]]),
    *[expand(blocks(2), 3), expand(window(1), 2), expand(window(1, 2), 1), expand(random(1, 3), 2)],
    *[expander(degree, seed) for degree, seed in [(0, 0), (2, 0), (4, 7), (98, 0)]],
    *[random(degree, seed) for degree, seed in [(0, 0), (1, 0), (2, 7), (3, 1), (99, 0)]],
]
"""Every pattern, with a handful of parameters each."""

REPRESENTATIVES = [
    *PATTERNS[:3],
    *[window(1), window(1, 2), blocks(3), hubs(0, -1), grid(2, 3), random(2, 7)],
    *[tree([3, 3, -1, -1, 0], "both"), multiset(), batch(window(1)), expand(random(1, 3), 2)],
]
"""One or two of each kind, for the compositions."""
