"""Base classes of data sets, their training, validation and test splits, and the data loader."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from edgewise.app.files.targets import Target
from edgewise.app.train.batches import Batch
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

POOL = 32  # Number of batches whose examples are sorted by length together.


class Loader:
    """Data loader of one split, for data that fit in memory.

    Args:
        make: function that takes example indices ``[B]`` and returns their batch.
        count: number of examples.
        size: batch size; the last batch may be smaller.
        seed: random seed for shuffling, which differs between epochs; ``None`` does not shuffle.
        draw: number of examples sampled per epoch. Defaults to all; ignored without a seed.
        lengths: length of each example, ``[count]``. If given, batches hold examples of similar
            length, which reduces padding: the examples of ``POOL`` batches are sampled, sorted by
            length and cut into batches, and these batches are shuffled.

    Lightning calls ``loader.sampler.set_epoch``, and saves and restores ``loader.state_dict()``,
    which holds the number of batches served in the epoch.

    Example:
        >>> import torch
        >>> from edgewise.app.train import Batch, Loader
        >>> x, y = torch.randn(100, 4), torch.arange(100) % 2
        >>> def make(index):
        ...     return Batch((x[index],), y[index])
        >>> loader = Loader(make, count=100, size=32, seed=0)
        >>> [len(batch.target) for batch in loader]
        [32, 32, 32, 4]
    """

    def __init__(
        self,
        make: Callable[[Tensor], Batch],
        count: int,
        size: int,
        seed: int | None = None,
        *,
        draw: int | None = None,
        lengths: Tensor | None = None,
    ) -> None:
        self.make, self.count, self.size, self.seed = make, count, size, seed
        self.drawn = count if draw is None or seed is None else min(draw, count)
        self.lengths = lengths
        if seed is not None:
            self.sampler = self
        self.rank, self.world_size, self.total_size = 0, 1, size
        self._epoch = self._served = self._skip = 0

    def share(self, rank: int, world_size: int) -> None:
        """Serve only the examples of one process, up to ``size`` examples of a batch."""
        self.rank, self.world_size = rank, world_size
        self.total_size = self.size * world_size

    def __len__(self) -> int:
        return math.ceil(self.drawn / self.total_size)

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order."""
        self._epoch = epoch

    def state_dict(self) -> dict[str, int]:
        """Return the number of batches served in this epoch."""
        return {"served": self._served % max(len(self), 1)}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """In the next iteration, skip the batches that were served before an interruption."""
        self._skip = state["served"]

    def __iter__(self) -> Iterator[Batch]:
        # A generator starts when its first batch is requested, after the call of set_epoch.
        first, self._skip = self._skip, 0
        batches = self._indices()
        for self._served, examples in enumerate(batches[first:], first + 1):
            index = examples[self.rank :: self.world_size]
            if len(index):
                yield self.make(index)
            else:  # All examples are in the batches of other processes: one without a target.
                batch = self.make(examples[:1])
                select = torch.empty(0, dtype=torch.long)
                yield replace(batch, target=batch.target[:0], select=select)

    def _indices(self) -> Sequence[Tensor]:
        """Return the example indices of each batch, for all processes together."""
        generator, lengths = self._generator(), self.lengths
        if generator is None:
            order = torch.arange(self.count) if lengths is None else lengths.argsort(stable=True)
            return list(order.split(self.total_size))
        order = torch.randperm(self.count, generator=generator)[: self.drawn]
        if lengths is None:
            return list(order.split(self.total_size))
        sorted_batches: list[Tensor] = []
        for pool in order.split(POOL * self.total_size):
            by_length = pool[lengths[pool].argsort(stable=True)]
            sorted_batches += by_length.split(self.total_size)
        order = torch.randperm(len(sorted_batches), generator=generator)
        return [sorted_batches[i] for i in order]

    def _generator(self) -> torch.Generator | None:
        """Return the random generator of this epoch; ``None`` if the epoch is not shuffled."""
        # Seeding a generator takes as long as a small training step, so avoid it if possible.
        if self.seed is None or self.count < 2:
            return None
        return torch.Generator().manual_seed(self.seed * 1_000_003 + self._epoch)


class TargetScale(NamedTuple):
    """Mean and standard deviation of regression targets, or of their logits if ``fraction``."""

    mean: float | list[float]
    std: float | list[float]
    fraction: bool = False

    @classmethod
    def of(cls, targets: Sequence[Target]) -> TargetScale | None:
        """Return the scale of the model outputs for the targets; ``None`` if all are classes."""
        if all(target.classes for target in targets):
            return None
        outputs = [target for target in targets for _ in range(target.width)]
        return cls([target.mean for target in outputs], [target.std for target in outputs])


@dataclass(frozen=True)
class Split:
    """Training, validation or test split of a data set.

    Attributes:
        make: function that takes example indices ``[B]`` and returns their batch.
        target_scale: scale of the targets, for regression. The model uses the scale of the training
            split.
        draw: number of examples sampled per epoch; ``None`` for all.
        lengths: length of each example, ``[count]``, to batch examples of similar length.

    Example:
        >>> import torch
        >>> from edgewise.app.train import Batch, Split
        >>> x, y = torch.randn(100, 4), torch.arange(100) % 2
        >>> split = Split(100, lambda index: Batch((x[index],), y[index]))
        >>> len(split.loader(batch_size=32, seed=0))
        4
    """

    count: int
    make: Callable[[Tensor], Batch]
    target_scale: TargetScale | None = None
    draw: int | None = None
    lengths: Tensor | None = None

    def loader(self, batch_size: int, seed: int | None) -> Loader:
        """Return a :class:`Loader` of the split; it shuffles unless ``seed`` is ``None``."""
        return Loader(self.make, self.count, batch_size, seed, draw=self.draw, lengths=self.lengths)


@dataclass(frozen=True)
class Splits:
    """Loaded and checked data set.

    Attributes:
        model_arguments: arguments of the model or task that the data determine, such as
            ``in_width``.
        train, val, test: the three splits.
        preprocessing: dict of values that prediction needs, such as label names, item ids, scales
            or the graph. They are JSON values or tensors, saved with a trained model for
            :mod:`edgewise.app.predict`.
        codes: precomputed positional encodings of the graphs. Those that the model uses are
            prepared before training and added to every batch.
        targets: descriptions of the targets for the task, saved with a trained model; empty if the
            task needs none.
        class_counts: number of training examples of each class, for class weights; empty if unknown
            or if the data set has ``targets``.

    Example:
        >>> from edgewise.app.kinds.images import Digits
        >>> splits = Digits(batch_size=32).load()
        >>> splits.train.count, splits.val.count, splits.test.count
        (1257, 180, 360)
        >>> loaders = splits.loaders(seed=0)  # for edgewise.app.train.fit
    """

    model_arguments: dict[str, Any]
    train: Split
    val: Split
    test: Split
    batch_size: int
    preprocessing: dict[str, Any] = field(default_factory=dict, kw_only=True)
    codes: PrecomputedEncodings | None = field(default=None, kw_only=True)
    targets: tuple[Target, ...] = field(default=(), kw_only=True)
    class_counts: tuple[int, ...] = field(default=(), kw_only=True)

    def loaders(self, seed: int) -> dict[str, Loader]:
        """Return the loader of each split by name; only ``train`` is shuffled."""
        splits = {"train": self.train, "val": self.val, "test": self.test}
        return {
            name: split.loader(self.batch_size, seed if name == "train" else None)
            for name, split in splits.items()
        }


@dataclass(frozen=True)
class TextSplits(Splits):
    """Loaded data set of texts, with the tokenizer that is saved with a trained model.

    Example:
        >>> from edgewise.app.kinds.texts import SST2
        >>> SST2().load().tokenizer.encode("A dull film.").tokens  # doctest: +SKIP
    """

    tokenizer: Tokenizer


@dataclass(frozen=True)
class Data(ABC):
    """Base class of data sets: the fields are its options, and ``load`` reads its files.

    Example:
        >>> from dataclasses import dataclass
        >>> from edgewise.app.kinds.images import Digits
        >>> from edgewise.app.train import Data
        >>> @dataclass(frozen=True)
        ... class Same(Data):
        ...     batch_size: int = 16
        ...
        ...     def load(self):
        ...         return Digits(batch_size=self.batch_size).load()
        >>> Same().load().batch_size
        16
    """

    provides: ClassVar[tuple[str, ...]]
    """Names of the model arguments that the data determine; recipes do not set them."""
    folders: ClassVar[tuple[str, ...]] = ()
    """Folders of ``EDGEWISE_DATA`` that a public data set reads."""
    comes_with: ClassVar[str] = ""
    """What a data set is part of, such as a Python package, for ``edgewise doctor``."""
    section: ClassVar[str] = "Others"
    """Heading under which the page of results shows its recipes."""

    @abstractmethod
    def load(self) -> Splits:
        """Read and check the data.

        Raises:
            MissingDataError: a file is missing.
            MissingExtraError: the package that reads the files is not installed.
            ArgumentError: a value is NaN or infinite, a label is out of range, or splits overlap.
        """
