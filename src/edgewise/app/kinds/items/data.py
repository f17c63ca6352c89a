"""Recommendation data: interactions of users with items, such as check-ins of Gowalla.

Papers: He et al., LightGCN, 2020 (the split of Gowalla); Cho et al., Friendship and mobility, 2011
(its data).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
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
from edgewise.app.train.neighbours import NeighbourSampler, check_fanouts, check_graph_memory
from edgewise.app.train.sampled import SampledSplit
from edgewise.app.train.splits import Data, Split, Splits
from edgewise.graphs import Graph, edges

RANKED = 2048  # Number of users per batch of validation and test, which limits memory.


class SplitInteractions(NamedTuple):
    """User and item indices ``[2, E]`` read from files, and the index of each id. Without ``val``,
    validation interactions are sampled from the training interactions.
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


def read_split(train: Path, test: Path) -> SplitInteractions:
    """Read the distinct interactions of a training file and a test file."""
    read = read_interactions(train, test)
    train_pairs, test_pairs = map(once, read.pairs)
    return SplitInteractions(train_pairs, test_pairs, read.user_ids, read.item_ids, (train, test))


@dataclass(frozen=True)
class InteractionSplits(Splits):
    """Loaded recommendation data, with the index of each user id and item id."""

    user_ids: Ids
    item_ids: Ids


@dataclass(frozen=True)
class Interactions(Data):
    """Base class of recommendation data: an undirected bipartite graph of users and items.

    Users are the first nodes of the graph, and items the last nodes.

    Training batches have inputs ``(users [B], negatives [M], graph)``, the keyword argument
    ``positives [B, K]`` and targets ``[B, K]``. The model returns scores ``[B, K + M]`` of the
    positive and then of the negative items. A target is the column of a positive item in these
    scores. Positives and targets are padded with -1. With ``fanouts``, the graph is a sample around
    these users and items, and the keyword argument ``nodes`` has its nodes in the whole graph.

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
        fanouts: for large graphs, maximum numbers of edges into a node that are sampled for a
            training batch, one for each layer (hop) of the model.
    """

    val: float = 0.05
    split_seed: int = 0
    negatives: int = 1024
    by_user: bool = False
    batch_size: int = 8192
    val_users: int = 4000
    fanouts: tuple[int, ...] = field(default=(), kw_only=True)

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
        check_fanouts(self.fanouts, "data.fanouts", empty=True)
        if self.fanouts and not self.negatives:
            raise ArgumentError(
                "data.fanouts",
                expected="no fanouts if all items are scored, data.negatives=0",
                got=", ".join(map(str, self.fanouts)),
                remedy="leave out data.fanouts, or choose for example --data.negatives 1024",
            )

    @abstractmethod
    def read(self) -> SplitInteractions:
        """Read the interactions from their files."""

    def load(self) -> InteractionSplits:
        chosen = self.read()
        with naming(*chosen.files):
            return self._split(chosen)

    def _split(self, chosen: SplitInteractions) -> InteractionSplits:
        sizes = {"num_users": chosen.num_users, "num_items": chosen.num_items}
        random = Generator().manual_seed(self.split_seed)
        train, val = chosen.train, chosen.val
        if val is None:
            train, val = _some_of_users(train, self.val, self.val_users, random)
        first_item = torch.tensor([[0], [chosen.num_users]])
        split = EdgeSplit(train + first_item, val + first_item, chosen.test + first_item)
        check_edge_split(split)
        num_nodes = sum(sizes.values())
        check_graph_memory("data.path", num_nodes, 2 * split.train.shape[1], self.fanouts)
        graph = edges(both_ways(split.train), num_nodes)
        ranked = partial(_ranking, graph, chosen)
        train_ranking = ranked(train[0].unique(), train, train[:, :0])
        training = SampledSplit.of(
            lambda index, _: train_ranking.make(index), train_ranking.count, self.batch_size
        )
        if self.negatives:
            train_items = _ItemsOf(train, chosen.num_users)
            sampler = NeighbourSampler(graph, self.fanouts) if self.fanouts else None
            draw = partial(self._draw, sampler or graph, train_items, chosen)
            count = len(train_items.users) if self.by_user else train.shape[1]
            training = SampledSplit.of(draw, count, self.batch_size)
        val_users = val[0].unique()
        if self.val_users:
            val_users = val_users[
                torch.randperm(len(val_users), generator=random)[: self.val_users]
            ]
        return InteractionSplits(
            sizes,
            training,
            ranked(val_users, val, train),
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
        self,
        graph: Graph | NeighbourSampler,
        train_items: _ItemsOf,
        chosen: SplitInteractions,
        index: Tensor,
        generator: Generator,
    ) -> Batch:
        others = torch.randint(chosen.num_items, (self.negatives,), generator=generator)
        if self.by_user:
            users = train_items.users[index]
            positives = train_items.rows(users)
        else:
            users, positive_items = train_items.pairs[:, index]
            positives = positive_items[:, None]
        target = torch.arange(positives.shape[1]).where(positives >= 0, -1)
        keywords = {"positives": positives}
        if isinstance(graph, NeighbourSampler):
            items = torch.cat([positives[positives >= 0], others]) + chosen.num_users
            sample = graph.sample(torch.cat([users, items]).unique(), generator)
            graph, keywords["nodes"] = sample.graph, sample.nodes
        return Batch((users, others, graph), target, keywords=keywords)


def _some_of_users(
    pairs: Tensor, fraction: float, users: int, random: Generator
) -> tuple[Tensor, Tensor]:
    """Hold out a fraction of the interactions of sampled users (0 for all users). A sample of all
    interactions would mostly be of active users, but the metrics are means over users.
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


def _ranking(
    graph: Graph, chosen: SplitInteractions, users: Tensor, held_out: Tensor, train_pairs: Tensor
) -> Split:
    """Return a split that ranks all items for each user: target 1 for pairs ``held_out [2, E]``, -1
    for training pairs, 0 for others.
    """
    held_out_items, train_items = (
        _ItemsOf(pairs, chosen.num_users) for pairs in (held_out, train_pairs)
    )
    items = torch.arange(chosen.num_items)

    def make(index: Tensor) -> Batch:
        batch_users = users[index]
        target = torch.zeros(len(batch_users), chosen.num_items, dtype=torch.int8)
        target[held_out_items.all(batch_users)] = 1
        target[train_items.all(batch_users)] = -1
        return Batch((batch_users, items, graph), target)

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
        """Return the pairs of users ``[B]``: position in the batch and item, both ``[E]``."""
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
    """Users and places of Gowalla, as split by LightGCN; validation is held out from training.

    Example:
        >>> from edgewise.app.kinds.items import Gowalla
        >>> splits = Gowalla(negatives=2048).load()  # doctest: +SKIP
    """

    folders = ("gowalla",)
    section = "Links and recommendation"

    def read(self) -> SplitInteractions:
        at = "gusye1234/LightGCN-PyTorch/947ca2b3b1d2d3545b114145710cb06c4e57b3d2/data/gowalla"
        files = {
            name: f"https://raw.githubusercontent.com/{at}/{name}"
            for name in ("train.txt", "test.txt")
        }
        raw = find_files("gowalla", files)
        return read_split(*(raw / name for name in files))
