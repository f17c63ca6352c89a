"""Random expressions of patterns, held to what they mean as predicates ``reads(i, j, n)``."""

from __future__ import annotations

import numpy as np

from tests.graphs import algebra, specification
from tests.graphs.specification import Spec

Rng = np.random.Generator


def draw_spec(rng: Rng, targets: int, sources: int, depth: int | None = None) -> Spec:
    """An expression of patterns that may exist at these sizes."""
    depth = int(rng.choice([0, 0, 0, 1, 1, 1, 2, 3])) if depth is None else depth
    if depth == 0:
        return _draw_pattern(rng, targets, sources)
    kind = rng.random()
    if kind < 0.6:
        left, right = (draw_spec(rng, targets, sources, depth - 1) for _ in range(2))
        return algebra.compose(left, str(rng.choice(["|", "&", "-"])), right)
    if kind < 0.7 and targets == sources:
        return algebra.power(draw_spec(rng, targets, sources, depth - 1), int(rng.integers(1, 4)))
    if kind < 0.8 and targets == sources:
        sizes = _draw_sizes(rng, targets)
        inner = draw_spec(rng, max(sizes), max(sizes), depth - 1)
        return algebra.batch_of(inner, sizes)
    if kind < 0.86:
        return algebra.transpose(draw_spec(rng, sources, targets, depth - 1))
    if kind < 0.93:
        change = algebra.with_self_loops if rng.random() < 0.5 else algebra.without_self_loops
        return change(draw_spec(rng, targets, sources, depth - 1))
    if rng.random() < 0.5:
        size, ahead = int(rng.integers(1, 6)), max(sources - targets, 0)
        whole = -(-sources // size)
        inner = draw_spec(rng, max(whole - ahead // size, 0), whole, depth - 1)
        return specification.expand(inner, size)
    if targets == sources and targets > 1:
        count = int(rng.integers(1, 3))
        inside = max(targets - count, 0)
        return algebra.virtual(draw_spec(rng, inside, inside, depth - 1), count)
    return draw_spec(rng, targets, sources, depth - 1)


def _draw_pattern(rng: Rng, targets: int, sources: int) -> Spec:
    n = max(sources, 1)
    kind = rng.random()
    if kind < 0.12:
        return specification.spec("complete()", lambda _i, _j, _n: True, specification.anywhere)
    if kind < 0.15:
        return specification.spec("empty()", lambda _i, _j, _n: False, specification.anywhere)
    if kind < 0.32:
        return specification.spec("causal()", lambda i, j, _: j <= i)
    if kind < 0.55:
        return specification.window(int(rng.integers(0, 6)), int(rng.choice([1, 1, 1, 2, 3])))
    if kind < 0.65:
        return specification.blocks(int(rng.integers(1, n + 2)))
    if kind < 0.8:
        nodes = [int(x) for x in rng.integers(-n, n, rng.integers(0, 4))]
        halves = [(True, True)] * 3 + [(True, False), (False, True), (False, False)]
        reads, is_read = halves[rng.integers(len(halves))]
        return specification.hubs(*nodes, reads=reads, is_read=is_read)
    if kind < 0.9 or targets != sources:
        return specification.random(int(rng.integers(0, 5)), int(rng.integers(0, 1000)))
    if kind < 0.95:
        height = max(d for d in range(1, n + 1) if n % d == 0 and d * d <= n)
        return specification.grid(height, n // height, int(rng.choice([4, 8])))
    parents = [int(rng.integers(-1, i)) for i in range(n)]
    return specification.tree(parents, str(rng.choice(["parent", "children", "both"])))


def _draw_sizes(rng: Rng, total: int) -> list[int]:
    sizes = []
    while sum(sizes) < total:
        sizes.append(int(rng.integers(0, min(total - sum(sizes), 6) + 1)))
    return sizes or [0]
