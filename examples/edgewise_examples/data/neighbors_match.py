"""NeighborsMatch: a tree whose root must pick one of all leaves, at the far end of a funnel.

The root of a binary tree asks with a key; every leaf has a key and a value, and the answer is the
value of the leaf with the root's key. Nodes read their children, so that the root, as many steps
up as the tree is deep, has to be told all of 2 ** depth pairs through two edges, as nobody below it
knows which is asked for. That a network cannot even fit this is called over-squashing.

Paper: Alon and Yahav, On the bottleneck of graph neural networks and its practical implications,
2021
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from edgewise.arguments import check_count
from edgewise.batches import Batch
from edgewise.data.sampled import drawn_splits
from edgewise.data.splits import Data, Splits
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, batch, membership, tree


@dataclass(frozen=True)
class NeighborsMatch(Data):
    """A tree an example, drawn at random; its class is the value that its root asks for.

    A model is called ``model(x, graph, batch=members)`` with x ``[B · nodes, 2 · symbols]``, a key
    and a value one-hot: the root, which comes first, has a key alone, a leaf both, all others none.

    Those to train on are drawn anew in every epoch, those of validation and test once.

    Attributes:
        depth: steps from the root to each leaf; there are 2 ** depth leaves.
        symbols: how many values there are, of which a tree has as many as leaves; 0 for no more
            than these. What is learned on shallow trees with the symbols of deep ones can begin
            (``--from``) a run on these.
        count: training trees in an epoch.
        tested: trees to validate and to test on, each.
        split_seed: which trees these are.
        batch_size: trees in a batch.

    """

    depth: int = 4
    symbols: int = 0
    count: int = 16000
    tested: int = 1000
    split_seed: int = 0
    batch_size: int = 200

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    def __post_init__(self) -> None:
        for name in ("depth", "count", "tested", "batch_size"):
            check_count(f"data.{name}", getattr(self, name), 1, "choose a larger number")
        if self.symbols and self.symbols < self.leaves:
            raise ArgumentError(
                "data.symbols",
                expected=f"{self.leaves} or more, one for each leaf, or 0 for as many",
                got=repr(self.symbols),
                remedy="choose more symbols, or shallower trees",
            )

    @property
    def leaves(self) -> int:
        """How many there are."""
        return int(2**self.depth)

    @property
    def classes(self) -> int:
        """How many values there are."""
        return self.symbols or self.leaves

    def load(self) -> Splits:
        return drawn_splits(
            {"in_width": 2 * self.classes, "out_width": self.classes},
            self.draw,
            self.as_batch,
            count=self.count,
            tested=self.tested,
            split_seed=self.split_seed,
            batch_size=self.batch_size,
        )

    def draw(self, trees: int, generator: Generator) -> tuple[Tensor, Tensor]:
        """The value of each leaf ``[trees, leaves]``, all different, and the key asked for."""
        values = torch.rand(trees, self.classes, generator=generator).argsort(1)
        return values[:, : self.leaves], torch.randint(self.leaves, (trees,), generator=generator)

    def asked(self, given: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The value of each leaf, in their order, and the key that the root asks for.

        Args:
            given: the values, and as the last number the key, as a person asks a finished model.

        Raises:
            ArgumentError: the values are not all of the data's, each once, or no leaf has the key.

        """
        *values, key = given
        keys = range(self.leaves)
        different = len(values) == len(set(values)) == self.leaves
        if not different or not set(values) <= set(range(self.classes)) or key not in keys:
            raise ArgumentError(
                "input",
                expected=f"the values of {self.leaves} leaves, numbers from 0 to "
                f"{self.classes - 1}, each once, in any order, and the key that is asked for",
                got=" ".join(map(str, given))[:60],
                remedy=f"write for example {' '.join(map(str, [*reversed(keys), 0]))}",
            )
        return torch.tensor(values), torch.tensor(key)

    def as_batch(self, values: Tensor, asked: Tensor) -> Batch:
        """Trees as a model reads them.

        Args:
            values: ``[B, leaves]``, the value of each leaf.
            asked: ``[B]``, the key of each root.

        """
        trees, leaves = values.shape
        graph, members = packed_trees(self.depth, trees)
        x = torch.zeros(trees, 2 * leaves - 1, 2, self.classes)
        x[:, 0, 0] = F.one_hot(asked, self.classes).float()
        x[:, -leaves:, 0] = torch.eye(leaves, self.classes)
        x[:, -leaves:, 1] = F.one_hot(values, self.classes).float()
        target = values.gather(1, asked[:, None])[:, 0]
        inputs = x.flatten(2).flatten(0, 1), graph
        return Batch(inputs, target, keywords={"batch": members})


@lru_cache(maxsize=8)
def packed_trees(depth: int, count: int) -> tuple[Graph, Graph]:
    """``count`` binary trees as one graph in which nodes read their children, and its members."""
    nodes = 2 ** (depth + 1) - 1
    one = tree([(node - 1) // 2 for node in range(nodes)], reads="children").bind(nodes)
    return batch([one] * count), membership([nodes] * count)
