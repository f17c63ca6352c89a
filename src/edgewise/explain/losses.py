"""Losses and attention weights on batches, for the importance of heads and for suggestions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_range
from edgewise._utils.errors import ArgumentError
from edgewise.explain.module_names import model_of
from edgewise.explain.record import Recorded, record

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Losses:
    """Model, batches, the mean loss of a batch, and the number of terms in this mean."""

    model: nn.Module
    batches: list[Any]
    loss: Callable[[nn.Module, Any], Tensor]
    count: Callable[[Any], int]

    @torch.no_grad()
    def mean(self) -> float:
        """Return the mean loss over all batches."""
        terms = [(float(self.loss(self.model, batch)), self.count(batch)) for batch in self.batches]
        return sum(loss * count for loss, count in terms) / max(sum(c for _, c in terms), 1)


def warn_if_unused(model: nn.Module) -> None:
    """Warn if the predictions are those of naive Bayes or of trees, not of the network."""
    for module in model.modules():
        if getattr(module, "is_alone", False):
            warnings.warn(
                "the weight of the network is near zero, so the predictions are those of "
                f"{module.part}, and attention weights and heads hardly affect them. Train with "
                f"{module.without_part} for predictions of the network alone.",
                stacklevel=3,
            )


def losses_of(
    model: Any,
    batches: Iterable[Any] | None = None,
    loss: Callable[[nn.Module, Any], Tensor] | None = None,
    *,
    split: str = "val",
    max_batches: int | None = None,
) -> Losses:
    """Return losses on batches spread evenly over the split of a run, or on the first batches
    given.
    """
    if max_batches is not None:
        check_range("max_batches", max_batches, "omit max_batches to use all batches", least=1)
    module = model_of(model).eval()
    if batches is not None and loss is not None:
        return Losses(module, list(islice(batches, max_batches)), loss, lambda _: 1)
    if isinstance(model, nn.Module):
        raise ArgumentError(
            "batches",
            expected="batches= and loss= for a model",
            got="a model without batches= or loss=",
            remedy="give both arguments, or pass a run loaded with edgewise.load",
        )
    check_choice("split", split, SPLITS)
    warn_if_unused(module)
    chosen_batches = _spaced(model.splits.loaders(model.recipe.seed)[split], max_batches)
    splits = model.splits
    task = model.recipe.task.with_targets(splits.targets, splits.class_counts)

    def task_loss(module: nn.Module, batch: Any) -> Tensor:
        mean: Tensor = task.loss(
            batch.select_outputs(module(*batch.inputs, **batch.keywords)), batch.target
        )
        return mean

    return Losses(module, chosen_batches, task_loss, lambda batch: len(batch.target))


def _spaced(loader: Any, most: int | None) -> list[Any]:
    """Return all batches of a loader or, if ``most`` is given, at most this many evenly spaced."""
    count = len(loader)
    size = count if most is None else min(most, count)
    indices = {(2 * i + 1) * count // (2 * size) for i in range(size)}
    return [batch for i, batch in enumerate(loader) if i in indices]


def recorded_batch(
    model: Any,
    batches: Iterable[Any] | None = None,
    loss: Callable[[nn.Module, Any], Tensor] | None = None,
    *,
    split: str = "val",
) -> Recorded:
    """Record the attention weights of a run on one batch of its data, the middle one.

    The arguments are those of :func:`importance`.

    Raises:
        ArgumentError: the model computes no attention.

    Example:
        >>> import torch
        >>> from edgewise import explain, models
        >>> bert = models.bert(100, width=16, depth=1, heads=2, ffn_dim=32)
        >>> batches = [torch.randint(100, (4, 6)) for _ in range(3)]
        >>> def loss(model, ids):
        ...     return model(ids).square().mean()
        >>> recorded = explain.recorded_batch(bert, batches, loss)
        >>> recorded.layers[0].weights.shape  # [B, E, H]
        torch.Size([4, 36, 2])
    """
    losses = losses_of(model, batches, loss, split=split, max_batches=1)
    with torch.no_grad(), record(losses.model) as recorded:
        losses.loss(losses.model, losses.batches[0])
    return recorded
