"""Base classes of data sets and their training, validation and test splits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor

from edgewise.app.files.targets import Target
from edgewise.app.train.batches import Batch
from edgewise.app.train.loader import Loader
from edgewise.app.train.precomputed_encodings import PrecomputedEncodings

if TYPE_CHECKING:
    from tokenizers import Tokenizer


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
    """Loaded data set of texts, with the tokenizer that is saved with a trained model."""

    tokenizer: Tokenizer


@dataclass(frozen=True)
class Data(ABC):
    """Base class of data sets: the fields are its options, and ``load`` reads its files."""

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
