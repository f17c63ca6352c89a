"""DictionaryLookup: key nodes have values, and each query node looks up the value of one key.

Every query node is linked to all key nodes. The attention of GAT ranks the keys in the same order
for all queries ("static attention"), so it cannot fit the data. Attention whose ranking depends on
the query, such as that of GATv2, can.

Paper: Brody et al., How attentive are graph attention networks?, 2022
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
from edgewise.graphs import Graph, batch, edges
from edgewise_examples.data.drawn_splits import drawn_splits


@dataclass(frozen=True)
class DictionaryLookup(Data):
    """Node classification data set of random dictionaries.

    A model is called as ``model(x, graph)``. The features x ``[B · 2 · size, 2 · size + 1]`` are
    one-hot keys and values. The first nodes of a dictionary are its keys with their values, the
    others are its queries: one for each key, with the value "unknown". Only query nodes have
    targets.

    Training dictionaries are sampled anew in every epoch. Validation and test dictionaries are
    fixed.

    Attributes:
        size: number of keys, of values and of queries in a dictionary.
        count: number of training dictionaries per epoch.
        tested: number of validation dictionaries, and of test dictionaries.
        split_seed: seed of the validation and test dictionaries.
        batch_size: number of dictionaries per batch.
    """

    section = "Synthetic graphs"

    size: int = 10
    count: int = 4000
    tested: int = 500
    split_seed: int = 0
    batch_size: int = 100

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    def __post_init__(self) -> None:
        for name in ("size", "count", "tested", "batch_size"):
            check_range(
                f"data.{name}", getattr(self, name), "choose a larger number", least=1, integer=True
            )

    def load(self) -> Splits:
        return drawn_splits(
            {"in_width": 2 * self.size + 1, "out_width": self.size},
            lambda count, generator: (self.draw(count, generator),),
            self.as_batch,
            count=self.count,
            tested=self.tested,
            split_seed=self.split_seed,
            batch_size=self.batch_size,
        )

    def draw(self, count: int, generator: Generator) -> Tensor:
        """Return the values of the keys of random dictionaries, permutations ``[count, size]``."""
        return torch.rand(count, self.size, generator=generator).argsort(1)

    def asked(self, values: Sequence[int]) -> Tensor:
        """Return the values of the keys that a user has given, as a tensor.

        Raises:
            ArgumentError: the values are not a permutation of 0 to ``size - 1``.
        """
        if sorted(values) != list(range(self.size)):
            raise ArgumentError(
                "input",
                expected=f"the values of {self.size} keys: the numbers from 0 to {self.size - 1}, "
                "each once, in any order",
                got=" ".join(map(str, values))[:60],
                remedy=f"write for example {' '.join(map(str, reversed(range(self.size))))}",
            )
        return torch.tensor(values)

    def as_batch(self, values: Tensor) -> Batch:
        """Return the batch of B dictionaries whose keys have the values ``[B, size]``."""
        count, size = values.shape
        graph, queries = packed_dictionaries(size, count)
        key = torch.eye(size).repeat(count, 2, 1)
        unknown = torch.full_like(values, size)
        value = F.one_hot(torch.cat([values, unknown], dim=1), size + 1).float()
        x = torch.cat([key, value], dim=2).flatten(0, 1)
        return Batch((x, graph), values.flatten(), queries)


@lru_cache(maxsize=8)
def packed_dictionaries(size: int, count: int) -> tuple[Graph, Tensor]:
    """Return the graph of ``count`` dictionaries and the indices of their query nodes."""
    pairs = torch.cartesian_prod(torch.arange(size), torch.arange(size, 2 * size)).T
    dictionary = edges(pairs, 2 * size)
    nodes = torch.arange(2 * size * count).view(count, -1)
    return batch([dictionary] * count), nodes[:, size:].flatten()
