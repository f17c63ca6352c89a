"""Checks of data before any training is done on them."""

from __future__ import annotations

from itertools import combinations

from torch import Tensor

from edgewise.errors import ArgumentError

SHOWN = 5  # columns that an error lists before it only counts


def check_features(features: Tensor) -> None:
    """No NaN and no infinity in ``[N, F, ...]``; the error counts them by column.

    Raises:
        ArgumentError: some value is not finite.

    """
    wrong = ~features.flatten(1).isfinite()
    if not wrong.any():
        return
    counts = wrong.sum(0)
    columns = counts.nonzero().flatten().tolist()
    listed = ", ".join(f"column {c}: {int(counts[c])}" for c in columns[:SHOWN])
    more = f" and {len(columns) - SHOWN} more columns" if len(columns) > SHOWN else ""
    raise ArgumentError(
        "features",
        expected="finite numbers",
        got=f"{int(counts.sum())} NaN or infinite values ({listed}{more})",
        remedy="drop or fill these values before training",
    )


def check_labels(labels: Tensor, classes: int, name: str = "labels") -> None:
    """Labels are from 0 to ``classes - 1``; ``name`` says whose these are.

    Raises:
        ArgumentError: some label is not; names the first.

    """
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        first = int(wrong.nonzero()[0, 0])
        raise ArgumentError(
            name,
            expected=f"whole numbers from 0 to {classes - 1}",
            got=f"{int(wrong.sum())} others, first {int(labels[first])} at example {first}",
            remedy="number the classes from 0 without gaps",
        )


def check_splits(**splits: Tensor) -> None:
    """The splits, as indices of examples, have members and share none.

    Raises:
        ArgumentError: one is empty, or two have an example in common.

    """
    for name, index in splits.items():
        if not len(index):
            raise ArgumentError(
                name,
                expected="at least one example",
                got="none",
                remedy="give the split a larger share",
            )
    for (one, a), (other, b) in combinations(splits.items(), 2):
        shared = sorted(set(a.tolist()) & set(b.tolist()))
        if shared:
            raise ArgumentError(
                f"{one}, {other}",
                expected="splits without a common example",
                got=f"{len(shared)} common examples, first {shared[0]}",
                remedy="take them out of one of the two",
            )
