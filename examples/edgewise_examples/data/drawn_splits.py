"""Training, validation and test splits of randomly generated examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Generator, Tensor

from edgewise.app.train import Batch, Split, Splits
from edgewise.app.train.sampled import SampledSplit


def drawn_splits(
    sizes: Mapping[str, Any],
    draw: Callable[[int, Generator], tuple[Tensor, ...]],
    make_batch: Callable[..., Batch],
    *,
    count: int,
    tested: int,
    split_seed: int,
    batch_size: int,
) -> Splits:
    """Return splits of randomly generated examples; training examples differ in every epoch.

    Args:
        sizes: arguments of the model that depend on the data, such as ``in_width``.
        draw: function ``(number, generator)`` that returns random examples as tensors, with one row
            per example.
        make_batch: function that makes a batch of such tensors.
        count: number of training examples per epoch.
        tested: number of validation examples, and of test examples.
        split_seed: random seed of the validation and test examples.
        batch_size: number of examples per batch.
    """

    def fixed(seed: int) -> Split:
        columns = draw(tested, Generator().manual_seed(seed))
        return Split(tested, lambda index: make_batch(*(column[index] for column in columns)))

    return Splits(
        dict(sizes),
        SampledSplit.of(
            lambda index, generator: make_batch(*draw(len(index), generator)), count, batch_size
        ),
        fixed(2 * split_seed + 1),
        fixed(2 * split_seed + 2),
        batch_size=batch_size,
    )
