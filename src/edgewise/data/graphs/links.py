"""Link prediction: some edges of a graph are held out, and to be told from pairs that are none."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor

from edgewise.arguments import check_least
from edgewise.batches import Batch
from edgewise.data.files import naming
from edgewise.data.graphs.edge_splits import (
    both_ways,
    draw_non_edges,
    pair_keys,
    split_edges,
    undirected,
)
from edgewise.data.sampled import SampledSplit
from edgewise.data.splits import Data, Split, Splits
from edgewise.data.tables.edges import Edges, Ids
from edgewise.data.tables.frames import FrameSource
from edgewise.graphs import Graph, edges


class Pairs(NamedTuple):
    """Distinct undirected pairs ``[2, E]``, and which nodes come first and second in one.

    The two ranges are one in a graph of one kind of node, where the smaller comes first. The ids
    are those of the nodes in the file that they are from, and the column the name there of the
    first ones.
    """

    pairs: Tensor
    left: range
    right: range
    node_ids: Ids
    file: Path | FrameSource
    column: str = "source"


def pairs_of_one_kind(found: Edges, path: Path | FrameSource) -> Pairs:
    """The undirected pairs of a file of edges, of which any node may be either end."""
    nodes = range(len(found.ids))
    return Pairs(undirected(found.pairs), nodes, nodes, found.ids, path, found.column)


@dataclass(frozen=True)
class LinkSplits(Splits):
    """A graph whose links are predicted.

    Attributes:
        node_ids: the number of each node by its id in the file, in the order of the numbers.
        model_arguments, train, val, test, batch_size, fitted: see :class:`Splits`.

    """

    node_ids: Ids


@dataclass(frozen=True)
class Links(Data):
    """Pairs of nodes with 1 for an edge and 0 for none; the model reads the other edges.

    A training batch supervises some of the training edges and reads the rest, so that no model
    sees the edge that it is asked about; validation and test read all the training edges. Pairs
    that are no edge are drawn anew in each epoch for training, and once for validation and test.

    Batches: inputs ``(pairs [2, M], graph)`` and targets ``[M]``, the edges first.

    A run keeps the graph and the ids (``fitted``): new links are proposed from all that is known.

    Attributes:
        val, test: shares of the edges.
        split_seed: which edges these are, and which pairs they are told from.
        negatives: pairs that are no edge for each edge.
        batch_size: edges that a training batch supervises, at most half of them.

    """

    val: float = 0.05
    test: float = 0.1
    split_seed: int = 0
    negatives: int = 1
    batch_size: int = 16384

    provides: ClassVar[tuple[str, ...]] = ("num_nodes",)

    def __post_init__(self) -> None:
        for name in ("negatives", "batch_size"):
            check_least(f"data.{name}", getattr(self, name), 1, "choose a larger number")

    @abstractmethod
    def read(self) -> Pairs:
        """Read the edges from their file."""

    def load(self) -> LinkSplits:
        found = self.read()
        with naming(found.file):
            return self._split(found)

    def _split(self, found: Pairs) -> LinkSplits:
        pairs, left, right, node_ids, _, column = found
        nodes = max(left.stop, right.stop)
        split = split_edges(pairs, val=self.val, test=self.test, seed=self.split_seed)
        graph = edges(both_ways(split.train), nodes)
        known = pair_keys(pairs, right.stop).sort().values
        drawn = Generator().manual_seed(self.split_seed)

        def held_out(part: Tensor) -> Split:
            none = draw_non_edges(self.negatives * part.shape[1], known, left, right, drawn)
            batch = _batch(graph, part, none)
            return Split(1, lambda _index: batch)

        train, count = split.train, split.train.shape[1]
        # What training draws may turn out to be a test edge: to avoid those would give them away.
        keys = pair_keys(train, right.stop).sort().values
        none = partial(draw_non_edges, keys=keys, left=left, right=right)

        def draw(index: Tensor, generator: Generator) -> Batch:
            read = torch.ones(count, dtype=torch.bool).index_fill_(0, index, False)
            others = none(self.negatives * len(index), generator=generator)
            return _batch(edges(both_ways(train[:, read]), nodes), train[:, index], others)

        size = min(self.batch_size, max(count // 2, 1))  # the others are read
        parts = SampledSplit.of(draw, count, size), held_out(split.val), held_out(split.test)
        fitted = {
            "ids": list(node_ids),
            "column": column,
            "known": pairs,
            "left": [left.start, left.stop],
            "right": [right.start, right.stop],
        }
        sizes = {"num_nodes": nodes}
        return LinkSplits(sizes, *parts, batch_size=1, node_ids=node_ids, fitted=fitted)


def _batch(graph: Graph, links: Tensor, none: Tensor) -> Batch:
    target = torch.cat([torch.ones(links.shape[1]), torch.zeros(none.shape[1])])
    return Batch((torch.cat([links, none], dim=1), graph), target)
