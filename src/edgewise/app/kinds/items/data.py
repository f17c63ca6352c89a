"""Recommendation data: interactions of users with items, such as check-ins of Gowalla.

Papers: He et al., LightGCN, 2020 (the split of Gowalla); Cho et al., Friendship and mobility, 2011
(its data).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise._utils.ragged import runs_and_positions, starts
from edgewise.app.files.edges import Ids, read_interactions
from edgewise.app.files.files import find_files, naming
from edgewise.app.files.frames import FrameSource
from edgewise.app.train.batches import Batch
from edgewise.app.train.edge_splits import EdgeSplit, both_ways, check_edge_split, once
from edgewise.app.train.sampled import SampledSplit
from edgewise.app.train.splits import Data, Split, Splits
from edgewise.graphs import Graph, edges

RANKED = 2048  # Number of users per batch of validation and test, which limits memory.


class Chosen(NamedTuple):
    """Interactions read from files.

    Attributes:
        train, test: user and item indices ``[2, E]``, from 0.
        user_ids, item_ids: dict from the id of each user (item) to its index.
        files: files of the interactions.
        val: validation interactions; ``None`` to sample them from the training interactions.
        columns: names of the columns of users and items.
    """

    train: Tensor
    test: Tensor
    user_ids: Ids
    item_ids: Ids
    files: tuple[Path | FrameSource, ...]
    val: Tensor | None = None
    columns: tuple[str, str] = ("user", "item")

    @property
    def num_users(self) -> int:
        """Number of users."""
        return len(self.user_ids)

    @property
    def num_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)


def chosen_of(train: Path, test: Path) -> Chosen:
    """Read the distinct interactions of a training file and a test file."""
    read = read_interactions(train, test)
    known, tested = map(once, read.pairs)
    return Chosen(known, tested, read.user_ids, read.item_ids, (train, test))


@dataclass(frozen=True)
class InteractionSplits(Splits):
    """Loaded recommendation data.

    Attributes:
        user_ids, item_ids: dict from the id of each user (item) to its index, sorted by index.
        model_arguments, train, val, test, batch_size, preprocessing: see :class:`Splits`.
    """

    user_ids: Ids
    item_ids: Ids


@dataclass(frozen=True)
class Interactions(Data):
    """Base class of recommendation data: an undirected bipartite graph of users and items.

    Users are the first nodes of the graph, and items the last nodes.

    Training batches have inputs ``(users [B], negatives [M], graph)``, the keyword argument
    ``positives [B, K]`` and targets ``[B, K]``. The model returns scores ``[B, K + M]`` of the
    positive and then of the negative items. A target is the column of a positive item in these
    scores. Positives and targets are padded with -1.

    Validation and test batches have inputs ``(users [B], items, graph)`` and targets
    ``[B, items]``: 1 for a held-out item of the user, 0 for another item, and -1 for a training
    item of the user, which is ignored. With ``negatives=0``, training batches have this form too,
    and all training items have target 1.

    Attributes:
        val: fraction of the interactions of each validation user that is used for validation
            (rounded, at least one); they are not in the graph. A user with one interaction cannot
            be a validation user.
        split_seed: random seed for sampling validation users and their validation interactions.
        negatives: items sampled per training batch, uniformly with replacement and shared by its
            users; some may be positive items of a user. 0 scores all items.
        by_user: whether to sample users with all of their items, instead of single interactions.
            This gives several times as many positives for the same negatives.
        batch_size: interactions per training batch; with ``by_user`` or ``negatives=0``, users per
            training batch.
        val_users: number of validation users, sampled with equal probability; 0 for all users,
            whose validation takes longer than many training steps.
    """

    val: float = 0.05
    split_seed: int = 0
    negatives: int = 1024
    by_user: bool = False
    batch_size: int = 8192
    val_users: int = 4000

    provides: ClassVar[tuple[str, ...]] = ("num_users", "num_items")

    def __post_init__(self) -> None:
        for name, least in (("negatives", 0), ("batch_size", 1), ("val_users", 0)):
            check_range(f"data.{name}", getattr(self, name), "choose a larger number", least=least)
        if not 0 < self.val < 1:
            raise ArgumentError(
                "data.val",
                expected="a fraction between 0 and 1",
                got=repr(self.val),
                remedy="choose for example 0.05",
            )

    @abstractmethod
    def read(self) -> Chosen:
        """Read the interactions from their files."""

    def load(self) -> InteractionSplits:
        chosen = self.read()
        with naming(*chosen.files):
            return self._split(chosen)

    def _split(self, chosen: Chosen) -> InteractionSplits:
        sizes = {"num_users": chosen.num_users, "num_items": chosen.num_items}
        random = Generator().manual_seed(self.split_seed)
        train, val = chosen.train, chosen.val
        if val is None:
            train, val = _some_of_users(train, self.val, self.val_users, random)
        first_item = torch.tensor([[0], [chosen.num_users]])
        parts = EdgeSplit(train + first_item, val + first_item, chosen.test + first_item)
        check_edge_split(parts)
        graph = edges(both_ways(parts.train), sum(sizes.values()))
        ranked = partial(_ranking, graph, chosen)
        asked = ranked(train[0].unique(), train, train[:, :0])
        training = SampledSplit.of(lambda index, _: asked.make(index), asked.count, self.batch_size)
        if self.negatives:
            known = _ItemsOf(train, chosen.num_users)
            draw = partial(self._draw, graph, known, chosen.num_items)
            count = len(known.users) if self.by_user else train.shape[1]
            training = SampledSplit.of(draw, count, self.batch_size)
        some = val[0].unique()
        if self.val_users:
            some = some[torch.randperm(len(some), generator=random)[: self.val_users]]
        return InteractionSplits(
            sizes,
            training,
            ranked(some, val, train),
            ranked(chosen.test[0].unique(), chosen.test, torch.cat([train, val], dim=1)),
            batch_size=RANKED,
            preprocessing={
                "users": list(chosen.user_ids),
                "items": list(chosen.item_ids),
                "columns": list(chosen.columns),
                "known": torch.cat([train, val, chosen.test], dim=1),
            },
            user_ids=chosen.user_ids,
            item_ids=chosen.item_ids,
        )

    def _draw(
        self, graph: Graph, known: _ItemsOf, items: int, index: Tensor, generator: Generator
    ) -> Batch:
        others = torch.randint(items, (self.negatives,), generator=generator)
        if self.by_user:
            users = known.users[index]
            positives = known.rows(users)
        else:
            users, own = known.pairs[:, index]
            positives = own[:, None]
        target = torch.arange(positives.shape[1]).where(positives >= 0, -1)
        return Batch((users, others, graph), target, keywords={"positives": positives})


def _some_of_users(
    pairs: Tensor, fraction: float, users: int, random: Generator
) -> tuple[Tensor, Tensor]:
    """Split interactions into training and validation interactions.

    Validation users are sampled, and then a fraction of the interactions of each. A sample of all
    interactions would mostly be of active users, but the metrics are means over users.

    Args:
        pairs: user and item of each interaction, ``[2, E]``.
        fraction: fraction of the interactions of a validation user.
        users: number of validation users; 0 for all.
        random: generator of random numbers.
    """
    pairs = pairs[:, torch.randperm(pairs.shape[1], generator=random)]
    pairs = pairs[:, pairs[0].argsort(stable=True)]
    count = torch.bincount(pairs[0])
    able = (count > 1).nonzero().flatten()
    able = able[torch.randperm(len(able), generator=random)[: users or None]]
    held_out = torch.zeros_like(count)
    held_out[able] = (count[able] * fraction).round().long().clamp(min=1)
    held_out = torch.minimum(held_out, (count - 1).clamp(min=0))
    user, position = runs_and_positions(count)
    chosen = position < held_out[user]
    return pairs[:, ~chosen], pairs[:, chosen]


def _ranking(graph: Graph, chosen: Chosen, users: Tensor, wanted: Tensor, known: Tensor) -> Split:
    """Return a split that ranks all items for each user.

    Args:
        graph: graph of the training interactions.
        chosen: all interactions that were read, with the number of items.
        users: users of the split.
        wanted: held-out pairs ``[2, E]`` of user and item, with target 1.
        known: pairs ``[2, E]`` used in training, with target -1. Other pairs have target 0.
    """
    wanted_of, known_of = (_ItemsOf(part, chosen.num_users) for part in (wanted, known))
    items = torch.arange(chosen.num_items)

    def make(index: Tensor) -> Batch:
        asked = users[index]
        target = torch.zeros(len(asked), chosen.num_items, dtype=torch.int8)
        target[wanted_of.all(asked)] = 1
        target[known_of.all(asked)] = -1
        return Batch((asked, items, graph), target)

    return Split(len(users), make)


class _ItemsOf:
    """Lookup of the items of each user, from pairs ``[2, E]`` of users and items."""

    def __init__(self, pairs: Tensor, num_users: int) -> None:
        self.pairs = pairs
        user, order = pairs[0].sort()
        self.item = pairs[1][order]
        self.count = torch.bincount(user, minlength=num_users)
        self.start = starts(self.count)
        self.users = self.count.nonzero().flatten()

    def all(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pairs of user and item for a batch of users ``[B]``, as two tensors ``[E]``.

        The first tensor has the position of the user in the batch, the second the item.
        """
        row, nth = runs_and_positions(self.count[users])
        return row, self.item[self.start[users][row] + nth]

    def rows(self, users: Tensor) -> Tensor:
        """Return the item indices of each user, ``[B, K]``, padded with -1."""
        count = self.count[users, None]
        rows = torch.full((len(users), int(count.max())), -1)
        rows[torch.arange(rows.shape[1]) < count] = self.all(users)[1]
        return rows


@dataclass(frozen=True)
class Gowalla(Interactions):
    """Users and places of Gowalla, as split by LightGCN; validation is held out from training."""

    folders = ("gowalla",)
    section = "Links and recommendation"

    def read(self) -> Chosen:
        at = "gusye1234/LightGCN-PyTorch/947ca2b3b1d2d3545b114145710cb06c4e57b3d2/data/gowalla"
        files = {
            name: f"https://raw.githubusercontent.com/{at}/{name}"
            for name in ("train.txt", "test.txt")
        }
        raw = find_files("gowalla", files)
        return chosen_of(*(raw / name for name in files))
