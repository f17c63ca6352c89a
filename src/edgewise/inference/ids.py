"""Users, items and nodes by the ids that they had in the training file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import ArgumentError
from edgewise.ragged import starts

AS_LONG = 2
"""Letters by which a similar id is longer or shorter at most; spares most comparisons."""


class KnownIds:
    """The ids of a run and their numbers.

    Args:
        ids: in the order of their numbers.
        what: one of them in a word, such as "user".
        remedy: what to do about one that is unknown and like no other.

    """

    def __init__(
        self, ids: Sequence[str], what: str, remedy: str = "train again on data that have it"
    ) -> None:
        self.ids, self.what, self.remedy = ids, what, remedy
        self._number = {name: number for number, name in enumerate(ids)}

    def __getitem__(self, number: int) -> str:
        return self.ids[number]

    def number(self, value: Any) -> int:
        """The number of an id, which may also be an integer.

        Raises:
            ArgumentError: it is unknown; suggests the nearest.

        """
        text = str(value).strip()
        if text in self._number:
            return self._number[text]
        alike = [known for known in self.ids if abs(len(known) - len(text)) <= AS_LONG]
        # Numbers that look alike have nothing in common.
        near = [] if text.isdecimal() else difflib.get_close_matches(text, alike, n=1, cutoff=0.5)
        raise ArgumentError(
            "input",
            expected=f"one of the {len(self.ids):,} {self.what}s that the run knows, "
            f"such as {near[0] if near else self.ids[0]}",
            got=repr(text[:60]),
            remedy=f"did you mean {near[0]!r}?" if near else self.remedy,
        )


class Neighbours:
    """Who is linked to whom, of any number of nodes at once.

    Args:
        pairs: ``[2, E]``, from the nodes that are asked for to what they are linked with.
        count: how many nodes can be asked for.

    """

    def __init__(self, pairs: Tensor, count: int) -> None:
        order = pairs[0].argsort(stable=True)
        self._other = pairs[1][order]
        self._count = torch.bincount(pairs[0], minlength=count)
        self._start = starts(self._count)

    def __getitem__(self, node: int) -> Tensor:
        start = int(self._start[node])
        return self._other[start : start + int(self._count[node])]
