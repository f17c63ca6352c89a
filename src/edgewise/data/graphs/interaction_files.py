"""Recommendation from your own files: who chose what, and when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from edgewise.arguments import check_named, check_shares
from edgewise.data.graphs.edge_splits import EdgeSplit, once
from edgewise.data.graphs.interactions import Chosen, Interactions
from edgewise.data.tables.edges import (
    Column,
    rating_column,
    read_interactions,
    time_column,
)
from edgewise.data.tables.frames import FrameSource, Source, open_source, take_frames
from edgewise.errors import ArgumentError
from edgewise.ragged import runs_and_positions

FEWEST = 3
"""Interactions that a user needs to have one to train on, one to validate and one to test."""


@dataclass(frozen=True)
class InteractionFiles(Interactions):
    """Who chose what, from a table with a column of users and one of items, or lines of items.

    Where there is one file alone, a share of each user's interactions is held out: the last ones,
    where a column says when they were, else some at random. Lines may also be ``user item item
    ...``; see :func:`edgewise.data.tables.edges.read_interactions`.

    Attributes:
        path: the file, or a data frame.
        test_path: a second one to test on, with nothing that is in the first; what is validated on
            is then drawn from the first.
        user, item, time, rating: columns by name, or by number where there is no header; "" knows
            the usual names, and of two columns takes the first for users and the second for items.
        min_rating: the lowest rating that counts as a choice; ``None`` counts all.
        test: the share of each user's interactions to test on, at least one of a user who has
            three; ``val`` likewise.
        header: whether the first line names the columns; ``None`` recognises it.
        names: ids are names, even where they look like numbers.
        val, split_seed, negatives, by_user, batch_size, val_users: see :class:`Interactions`.
    """

    path: Source = ""
    test_path: Source = ""
    user: str = ""
    item: str = ""
    time: str = ""
    rating: str = ""
    min_rating: float | None = None
    test: float = 0.1
    header: bool | None = None
    names: bool = False

    def __post_init__(self) -> None:
        take_frames(self, "path", "test_path")
        super().__post_init__()
        shares = {"data.val": self.val, "data.test": self.test}
        check_shares(shares, "choose for example 0.1 and 0.1")

    def read(self) -> Chosen:
        check_named("data.path", self.path, "a file of users and items")
        paths = [open_source(path) for path in (self.path, self.test_path) if path]
        time, rating = time_column(self.time), rating_column(self.rating)
        wanted = [column for column in (time, rating) if self._reads(column)]
        read = read_interactions(
            *paths,
            header=self.header,
            names=self.names,
            user=self.user,
            item=self.item,
            further=wanted,
        )
        pairs = [self._liked(*each) for each in zip(read.pairs, read.numbers, paths, strict=True)]
        ids = read.user_ids, read.item_ids
        if self.test_path:
            known, tested = (once(part) for part, _ in pairs)
            return Chosen(known, tested, *ids, tuple(paths), columns=read.columns)
        split = last_of_each(*pairs[0], val=self.val, test=self.test, seed=self.split_seed)
        return Chosen(split.train, split.test, *ids, tuple(paths), split.val, read.columns)

    def _reads(self, column: Column) -> bool:
        if column.argument == "data.time":
            return bool(column.name) or not self.test_path
        return bool(column.name) or self.min_rating is not None

    def _liked(
        self, pairs: Tensor, numbers: dict[str, Tensor], path: Path | FrameSource
    ) -> tuple[Tensor, Tensor | None]:
        """The interactions that count, and when they were."""
        when = numbers.get("data.time")
        if self.min_rating is None:
            return pairs, when
        if "data.rating" not in numbers:
            raise ArgumentError(
                "data.rating",
                expected=f"a column of ratings in {path.name}, as data.min_rating is given",
                got="none of a usual name",
                remedy="name it with --data.rating, or leave --data.min_rating out",
            )
        liked = numbers["data.rating"] >= self.min_rating
        if not liked.any():
            raise ArgumentError(
                "data.min_rating",
                expected=f"at most the highest rating of {path.name}, "
                f"{float(numbers['data.rating'].max()):g}",
                got=f"{self.min_rating:g}",
                remedy="choose a lower one",
            )
        return pairs[:, liked], None if when is None else when[liked]


def last_of_each(
    pairs: Tensor, when: Tensor | None, *, val: float, test: float, seed: int
) -> EdgeSplit:
    """Hold out the last interactions of each user, or some at random where no time is known.

    Args:
        pairs: users and items ``[2, E]``; of what a user chose twice the first time counts.
        when: ``[E]``, any numbers that grow; ``None`` draws an order.
        val: the share of a user's interactions to validate on, rounded, at least one; those of
            users with fewer than three are all trained on.
        test: the share to test on, which come last.
        seed: of the order that is drawn, also of interactions at the same time.

    Raises:
        ArgumentError: no user has three interactions.
    """
    drawn = torch.randperm(pairs.shape[1], generator=Generator().manual_seed(seed))
    order = drawn if when is None else drawn[when[drawn].argsort(stable=True)]
    pairs = once(pairs[:, order])
    pairs = pairs[:, pairs[0].argsort(stable=True)]
    count = torch.bincount(pairs[0])
    enough = count >= FEWEST
    if not enough.any():
        raise ArgumentError(
            "data.path",
            expected=f"users with {FEWEST} interactions: one to train, validate and test on each",
            got=f"{int(count.max())} at most",
            remedy="bring more, or name another file with --data.test_path",
        )
    tested = (count * test).round().long().clamp(min=1) * enough
    held_out = tested + (count * val).round().long().clamp(min=1) * enough
    held_out = torch.minimum(held_out, count - 1)  # something is left to train on
    user, position = runs_and_positions(count)
    left = count[user] - position  # 1 for the last
    in_test, in_train = left <= tested[user], left > held_out[user]
    return EdgeSplit(pairs[:, in_train], pairs[:, ~in_test & ~in_train], pairs[:, in_test])
