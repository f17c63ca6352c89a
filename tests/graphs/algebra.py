"""What the operations on graphs mean, on boolean matrices."""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch import Tensor

from edgewise import graphs
from edgewise.graphs import Pattern
from tests.graphs.specification import Matrix, Spec, block_diagonal, expand

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "|": lambda a, b: a | b,
    "&": lambda a, b: a & b,
    "-": lambda a, b: a & ~b,
}
SYMBOLS = {"|": operator.or_, "&": operator.and_, "-": operator.sub}


def compose(left: Spec, sign: str, right: Spec) -> Spec:
    def matrix(targets: int, sources: int) -> Matrix:
        a, b = left.matrix(targets, sources), right.matrix(targets, sources)
        return None if a is None or b is None else BINARY[sign](a, b)

    def pattern(targets: int, sources: int) -> Pattern:
        return SYMBOLS[sign](left.pattern(targets, sources), right.pattern(targets, sources))

    return Spec(f"({left} {sign} {right})", pattern, matrix)


def _mapped(spec: Spec, name: str, change: Callable[[Tensor], Matrix]) -> Spec:
    """A method of patterns that changes the matrix at the same sizes."""

    def matrix(targets: int, sources: int) -> Matrix:
        whole = spec.matrix(targets, sources)
        return None if whole is None else change(whole)

    method, *arguments = name.split()
    numbers = [int(argument) for argument in arguments]
    return Spec(
        f"{spec}.{method}({', '.join(arguments)})",
        lambda t, s: getattr(spec.pattern(t, s), method)(*numbers),
        matrix,
    )


def own_place(matrix: Tensor) -> Matrix:
    """Each target at its own position among the sources."""
    targets, sources = matrix.shape
    if targets > sources:
        return None
    own = torch.zeros_like(matrix)
    for i in range(targets):
        own[i, i + sources - targets] = True
    return own


def with_self_loops(spec: Spec) -> Spec:
    def change(matrix: Tensor) -> Matrix:
        own = own_place(matrix)
        return None if own is None else matrix | own

    return _mapped(spec, "with_self_loops", change)


def without_self_loops(spec: Spec) -> Spec:
    def change(matrix: Tensor) -> Matrix:
        own = own_place(matrix)
        return None if own is None else matrix & ~own

    return _mapped(spec, "without_self_loops", change)


def power(spec: Spec, k: int) -> Spec:
    def change(matrix: Tensor) -> Matrix:
        if matrix.shape[0] != matrix.shape[1]:
            return None
        walks, reach = matrix.long(), matrix
        for _ in range(k - 1):
            walks = (walks @ matrix.long()).clamp(max=1)
            reach = reach | (walks > 0)
        return reach

    return _mapped(spec, f"power {k}", change)


def transpose(spec: Spec) -> Spec:
    def matrix(targets: int, sources: int) -> Matrix:
        whole = spec.matrix(sources, targets)
        return None if whole is None else whole.T

    return Spec(f"{spec}.transpose()", lambda t, s: spec.pattern(s, t).transpose(), matrix)


def virtual(spec: Spec, count: int) -> Spec:
    def matrix(targets: int, sources: int) -> Matrix:
        if targets != sources or targets < count:
            return None
        inner = spec.matrix(targets - count, sources - count)
        if inner is None:
            return None
        whole = torch.ones(targets, sources, dtype=torch.bool)
        whole[count:, count:] = inner
        return whole

    def pattern(targets: int, sources: int) -> Pattern:
        inside = spec.pattern(max(targets - count, 0), max(sources - count, 0))
        return graphs.virtual(inside, count)

    return Spec(f"virtual({spec}, {count})", pattern, matrix)


def batch_of(spec: Spec, sizes: list[int]) -> Spec:
    """A batch of a pattern that has no size of its own."""
    total = sum(sizes)

    def matrix(targets: int, sources: int) -> Matrix:
        if targets != total or sources != total:
            return None
        return block_diagonal([spec.matrix(size, size) for size in sizes])

    return Spec(
        f"batch({spec}, {sizes})", lambda t, s: graphs.batch(spec.pattern(t, s), sizes), matrix
    )


UNARY: list[Callable[[Spec], Spec]] = [
    transpose,
    with_self_loops,
    without_self_loops,
    *[lambda spec, k=k: power(spec, k) for k in (1, 2, 3)],
    *[lambda spec, size=size: expand(spec, size) for size in (1, 2, 3)],
    *[lambda spec, count=count: virtual(spec, count) for count in (0, 1, 2)],
]
