"""NeighborsMatch: the root of a binary tree looks up the value of one of its leaves.

Every leaf has a key and a value. The target is the value of the leaf that has the same key as the
root. Nodes attend to their children, and do not know the key of the root. Therefore messages must
carry all 2 ** depth pairs of key and value through the two edges at the root. If a network cannot
fit even the training data, this is called over-squashing.

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

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError
from edgewise.app.train import Batch, Data, Splits
from edgewise.graphs import Graph, batch, membership, tree
from edgewise_examples.data.drawn_splits import drawn_splits


@dataclass(frozen=True)
class NeighborsMatch(Data):
    """Graph classification data set of random trees; the class is the value that the root looks up.

    A model is called as ``model(x, graph, batch=members)``. The features x
    ``[B · nodes, 2 · symbols]`` are one-hot keys and values. The root, which is the first node, has
    a key, a leaf has a key and a value, and all other nodes have neither.

    Training trees are sampled anew in every epoch. Validation and test trees are fixed.

    Attributes:
        depth: depth of the tree, which has 2 ** depth leaves.
        symbols: number of different values of the leaves; 0 for as many as there are leaves. To
            initialise a run on deep trees from a run on shallow trees (``--from``), train the
            latter with the number of symbols of the deep trees.
        count: number of training trees per epoch.
        tested: number of validation trees, and of test trees.
        split_seed: seed of the validation and test trees.
        batch_size: number of trees per batch.
    """

    section = "Synthetic graphs"

    depth: int = 4
    symbols: int = 0
    count: int = 16000
    tested: int = 1000
    split_seed: int = 0
    batch_size: int = 200

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    def __post_init__(self) -> None:
        for name in ("depth", "count", "tested", "batch_size"):
            check_range(
                f"data.{name}", getattr(self, name), "choose a larger number", least=1, integer=True
            )
        if self.symbols and self.symbols < self.leaves:
            raise ArgumentError(
                "data.symbols",
                expected=f"at least {self.leaves}, the number of leaves, or 0 for this number",
                got=repr(self.symbols),
                remedy="choose more symbols, or a smaller data.depth",
            )

    @property
    def leaves(self) -> int:
        """Number of leaves in a tree."""
        return int(2**self.depth)

    @property
    def classes(self) -> int:
        """Number of classes, which are the different values of leaves."""
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
        """Return random values of the leaves ``[trees, leaves]`` and keys of the roots ``[trees]``.

        The values within a tree are all different.
        """
        values = torch.rand(trees, self.classes, generator=generator).argsort(1)
        return values[:, : self.leaves], torch.randint(self.leaves, (trees,), generator=generator)

    def asked(self, values_and_key: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return the values of the leaves and the key of the root as tensors, for a user's input.

        Args:
            values_and_key: the values of the leaves, then the key of the root.

        Raises:
            ArgumentError: values are missing, repeated or too large, or no leaf has the key.
        """
        *values, key = values_and_key
        keys = range(self.leaves)
        different = len(values) == len(set(values)) == self.leaves
        if not different or not set(values) <= set(range(self.classes)) or key not in keys:
            raise ArgumentError(
                "input",
                expected=f"the values of {self.leaves} leaves, numbers from 0 to "
                f"{self.classes - 1}, each once, in any order, and then the key of the root",
                got=" ".join(map(str, values_and_key))[:60],
                remedy=f"write for example {' '.join(map(str, [*reversed(keys), 0]))}",
            )
        return torch.tensor(values), torch.tensor(key)

    def as_batch(self, values: Tensor, asked: Tensor) -> Batch:
        """Return the batch of B trees.

        Args:
            values: ``[B, leaves]``, values of the leaves.
            asked: ``[B]``, keys of the roots.
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
    """Return ``count`` binary trees as one graph, and the graph for pooling each tree."""
    nodes = 2 ** (depth + 1) - 1
    single_tree = tree([(node - 1) // 2 for node in range(nodes)], reads="children").bind(nodes)
    return batch([single_tree] * count), membership([nodes] * count)
