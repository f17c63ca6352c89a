"""DictionaryLookup: keys with values, and as many nodes that each ask for the value of one key.

Every question reads all the keys. A network whose ranking of sources is the same for whoever asks,
as GAT's is, cannot give all of them their own answer; one whose ranking depends on who asks can.

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

from edgewise.arguments import check_count
from edgewise.batches import Batch
from edgewise.data.sampled import drawn_splits
from edgewise.data.splits import Data, Splits
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, batch, edges


@dataclass(frozen=True)
class DictionaryLookup(Data):
    """A dictionary an example, whose questions have an answer each.

    A model of nodes is called ``model(x, graph)`` with x ``[B · 2 · size, 2 · size + 1]``, a key
    and a value one-hot: first the keys of a dictionary with their values, then the questions, of
    which each has another key and the value "unknown". The outputs at the questions count.

    Those to train on are drawn anew in every epoch, those of validation and test once.

    Attributes:
        size: keys of a dictionary, and values, and questions.
        count: training dictionaries in an epoch.
        tested: dictionaries to validate and to test on, each.
        split_seed: which dictionaries these are.
        batch_size: dictionaries in a batch.

    """

    size: int = 10
    count: int = 4000
    tested: int = 500
    split_seed: int = 0
    batch_size: int = 100

    provides: ClassVar[tuple[str, ...]] = ("in_width", "out_width")

    def __post_init__(self) -> None:
        for name in ("size", "count", "tested", "batch_size"):
            check_count(f"data.{name}", getattr(self, name), 1, "choose a larger number")

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
        """The value of each key, ``[count, size]``, all different."""
        return torch.rand(count, self.size, generator=generator).argsort(1)

    def asked(self, values: Sequence[int]) -> Tensor:
        """The value of each key, in their order, as a person asks a finished model.

        Raises:
            ArgumentError: they are not all of the data's values, each once.

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
        """Dictionaries ``[B, size]`` as a model reads them; the outputs at questions count."""
        count, size = values.shape
        graph, questions = packed_dictionaries(size, count)
        key = torch.eye(size).repeat(count, 2, 1)
        unknown = torch.full_like(values, size)
        value = F.one_hot(torch.cat([values, unknown], dim=1), size + 1).float()
        x = torch.cat([key, value], dim=2).flatten(0, 1)
        return Batch((x, graph), values.flatten(), questions)


@lru_cache(maxsize=8)
def packed_dictionaries(size: int, count: int) -> tuple[Graph, Tensor]:
    """``count`` graphs whose last ``size`` nodes read the first, as one; and which those are."""
    pairs = torch.cartesian_prod(torch.arange(size), torch.arange(size, 2 * size)).T
    one = edges(pairs, 2 * size)
    return batch([one] * count), torch.arange(2 * size * count).view(count, -1)[:, size:].flatten()
