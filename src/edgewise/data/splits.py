"""What every data set gives: three splits and the sizes that a model has to know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor

from edgewise.batches import Batch
from edgewise.data.codes import Codes
from edgewise.data.loader import Loader

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TargetScale(NamedTuple):
    """What numbers with a unit look like: the model predicts standardised values, scaled back.

    Attributes:
        mean, std: of the targets; where they are fractions, of the logits of these.
        fraction: whether targets lie between 0 and 1, so that predictions must, too.

    """

    mean: float
    std: float
    fraction: bool = False


@dataclass(frozen=True)
class Split:
    """One part of a data set.

    Attributes:
        count: how many examples.
        make: the batch of an index ``[B]`` of them.
        target_scale: of its targets, where these are numbers with a unit; that of the training
            split is the model's.
        draw: how many examples an epoch draws of them; all where it is ``None``.
        lengths: ``[count]``, where batches should be of examples of about the same length.

    """

    count: int
    make: Callable[[Tensor], Batch]
    target_scale: TargetScale | None = None
    draw: int | None = None
    lengths: Tensor | None = None

    def loader(self, batch_size: int, seed: int | None) -> Loader:
        """Its batches; see :class:`Loader`."""
        return Loader(self.make, self.count, batch_size, seed, draw=self.draw, lengths=self.lengths)


@dataclass(frozen=True)
class Splits:
    """A loaded and checked data set.

    Attributes:
        model_arguments: what the model, or the task that completes it, must be told about the
            data, such as ``in_width``.
        train, val, test: its parts.
        batch_size: examples in a batch.
        fitted: what was learned from the data and a prediction cannot do without, such as the
            names of the labels, the ids of items, scalings or the graph: by name a value that JSON
            has, or a tensor. A run keeps it, and :mod:`edgewise.inference` reads it.
        codes: of the graphs' encodings; those that the model has are prepared before training, and
            then in every batch.

    """

    model_arguments: dict[str, Any]
    train: Split
    val: Split
    test: Split
    batch_size: int
    fitted: dict[str, Any] = field(default_factory=dict, kw_only=True)
    codes: Codes | None = field(default=None, kw_only=True)

    def loaders(self, seed: int) -> dict[str, Loader]:
        """A loader by the name of each split; only ``train`` is shuffled."""
        parts = {"train": self.train, "val": self.val, "test": self.test}
        return {
            name: part.loader(self.batch_size, seed if name == "train" else None)
            for name, part in parts.items()
        }


@dataclass(frozen=True)
class TextSplits(Splits):
    """A data set of texts.

    Attributes:
        tokenizer: what made numbers of them; it is kept in the run folder.
        model_arguments, train, val, test, batch_size, fitted: see :class:`Splits`.

    """

    tokenizer: Tokenizer


@dataclass(frozen=True)
class Data(ABC):
    """Which data, with what choices; nothing is read before :meth:`load`."""

    provides: ClassVar[tuple[str, ...]]
    """The model's arguments that the data decide, so that no recipe writes them."""

    @abstractmethod
    def load(self) -> Splits:
        """Read and check the data.

        Raises:
            MissingDataError: a file is not there.
            MissingExtraError: the package that reads it is not installed.
            ArgumentError: NaN or infinity, labels out of range, splits that overlap.

        """
