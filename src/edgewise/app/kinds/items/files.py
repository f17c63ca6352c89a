"""Recommendation on the user's own files of users and items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_given, check_shares
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions
from edgewise.app.files.edges import RATING, TIME, Column, read_interactions
from edgewise.app.files.frames import FrameSource, Source, open_source, take_frames
from edgewise.app.files.reading import log
from edgewise.app.kinds.items.data import Interactions, SplitInteractions
from edgewise.app.train.edge_splits import EdgeSplit, once

FEWEST = 3
"""Number of interactions that a user needs to have one in each of the three splits."""


@dataclass(frozen=True)
class InteractionFiles(Interactions):
    """User-item interactions from a table with a user and an item column, or from a text file.

    Without a test file, a fraction of each user's interactions is held out: the latest ones if a
    column has their times, otherwise a random sample. Lines of a text file may also have the form
    ``user item item ...``; see :func:`edgewise.app.files.edges.read_interactions`.

    Attributes:
        path: the file, or a data frame.
        test_path: optional file of test interactions, which ``path`` must not contain. Validation
            interactions are then sampled from ``path``.
        user, item, time, rating: column names, or column numbers from 1 without a header; "" finds
            them by their usual names. Of two columns, the first is users and the second items.
        min_rating: lowest rating that counts as an interaction; ``None`` counts all rows.
        test: fraction of each user's interactions held out for the test set, at least one for users
            with three or more. ``val`` does the same for the validation set.
        header: whether the first line names the columns; ``None`` detects it.
        names: whether ids are names, even if they look like numbers.
        val, split_seed, negatives, by_user, batch_size, val_users, fanouts: see
            :class:`Interactions`.

    Example:
        >>> import pandas as pd
        >>> from edgewise.app.kinds.items import InteractionFiles
        >>> rows = [(f"user {u}", f"item {(u + i) % 9}") for u in range(9) for i in range(5)]
        >>> bought = pd.DataFrame(rows, columns=["user", "item"])
        >>> splits = InteractionFiles(path=bought).load()
        >>> splits.model_arguments
        {'num_users': 9, 'num_items': 9}
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

    def read(self) -> SplitInteractions:
        check_given("data.path", self.path, "a file of users and items")
        paths = [open_source(path) for path in (self.path, self.test_path) if path]
        time, rating = TIME.named(self.time), RATING.named(self.rating)
        further = [column for column in (time, rating) if self._reads(column)]
        read = read_interactions(
            *paths,
            header=self.header,
            names=self.names,
            user=self.user,
            item=self.item,
            further=further,
        )
        if read.rating and self.min_rating is None:
            log.info(
                f"data.min_rating: each row counts as a choice, whatever its {read.rating!r}; "
                "leave out low ratings with, for example, --data.min_rating 4"
            )
        pairs = [
            self._liked(*file_interactions)
            for file_interactions in zip(read.pairs, read.numbers, paths, strict=True)
        ]
        ids = read.user_ids, read.item_ids
        if self.test_path:
            train_pairs, test_pairs = (once(user_items) for user_items, _ in pairs)
            return SplitInteractions(
                train_pairs, test_pairs, *ids, tuple(paths), columns=read.columns
            )
        split = last_of_each(*pairs[0], val=self.val, test=self.test, seed=self.split_seed)
        return SplitInteractions(
            split.train, split.test, *ids, tuple(paths), split.val, read.columns
        )

    def _reads(self, column: Column) -> bool:
        if column.argument == "data.time":
            return bool(column.name) or not self.test_path
        return bool(column.name) or self.min_rating is not None

    def _liked(
        self, pairs: Tensor, numbers: dict[str, Tensor], path: Path | FrameSource
    ) -> tuple[Tensor, Tensor | None]:
        """Return the interactions with a rating of at least ``min_rating``, and their times."""
        when = numbers.get("data.time")
        if self.min_rating is None:
            return pairs, when
        if "data.rating" not in numbers:
            raise ArgumentError(
                "data.rating",
                expected=f"a column of ratings in {path.name}, because data.min_rating is given",
                got=f"no column with a usual name, such as {RATING.usual[0]}",
                remedy="name the column with --data.rating, or omit --data.min_rating",
            )
        liked = numbers["data.rating"] >= self.min_rating
        if not liked.any():
            raise ArgumentError(
                "data.min_rating",
                expected=f"at most the highest rating of {path.name}, "
                f"{float(numbers['data.rating'].max()):g}",
                got=f"{self.min_rating:g}",
                remedy="choose a lower rating",
            )
        return pairs[:, liked], None if when is None else when[liked]


def last_of_each(
    pairs: Tensor, when: Tensor | None, *, val: float, test: float, seed: int
) -> EdgeSplit:
    """Hold out the latest interactions of each user, or a random sample if times are unknown. Of
    repeated interactions only the first is kept; all interactions of users with fewer than three
    are used for training.
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
            expected=f"users with at least {FEWEST} interactions, one for each split",
            got=f"at most {int(count.max())} per user",
            remedy="add interactions, or name a test file with --data.test_path",
        )
    tested = (count * test).round().long().clamp(min=1) * enough
    held_out = tested + (count * val).round().long().clamp(min=1) * enough
    # Leave at least one interaction for training.
    held_out = torch.minimum(held_out, count - 1)
    user, position = runs_and_positions(count)
    left = count[user] - position  # 1 for the last interaction of a user.
    in_test, in_train = left <= tested[user], left > held_out[user]
    return EdgeSplit(pairs[:, in_train], pairs[:, ~in_test & ~in_train], pairs[:, in_test])
