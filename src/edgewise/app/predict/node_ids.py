"""Lookup of node ids and of neighbours."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import starts

MAX_LENGTH_DIFFERENCE = 2
"""Maximum difference in length between an unknown id and a suggested id, which avoids most of the
slow comparisons."""


class KnownIds:
    """Map between ids in the training file and node indices; ``what`` is their noun in errors."""

    def __init__(
        self, ids: Sequence[str], what: str, remedy: str = "train again on data with this id"
    ) -> None:
        self.ids, self.what, self.remedy = ids, what, remedy
        self._number = {name: number for number, name in enumerate(ids)}

    def __getitem__(self, number: int) -> str:
        return self.ids[number]

    def number(self, value: Any) -> int:
        """Return the index of a node id; the error for an unknown id suggests a similar one."""
        text = str(value).strip()
        if text in self._number:
            return self._number[text]
        alike = [
            candidate
            for candidate in self.ids
            if abs(len(candidate) - len(text)) <= MAX_LENGTH_DIFFERENCE
        ]
        # Suggest nothing for a number, because ids with similar digits are unrelated.
        near = [] if text.isdecimal() else difflib.get_close_matches(text, alike, n=1, cutoff=0.5)
        raise ArgumentError(
            "input",
            expected=f"one of the {len(self.ids):,} {self.what}s in the training data of the run, "
            f"such as {near[0] if near else self.ids[0]}",
            got=repr(text[:60]),
            remedy=f"did you mean {near[0]!r}?" if near else self.remedy,
        )


class Neighbours:
    """Neighbours of ``count`` nodes, from pairs ``[2, E]`` of a node and its neighbour."""

    def __init__(self, pairs: Tensor, count: int) -> None:
        order = pairs[0].argsort(stable=True)
        self._other = pairs[1][order]
        self._count = torch.bincount(pairs[0], minlength=count)
        self._start = starts(self._count)

    def __getitem__(self, node: int) -> Tensor:
        start = int(self._start[node])
        return self._other[start : start + int(self._count[node])]
