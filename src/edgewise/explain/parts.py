"""What each part of a hybrid model adds to a prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from edgewise.layers.sum_of_parts import SumOfParts


def is_hybrid(model: nn.Module) -> bool:
    """Return whether a model adds the scores of several parts."""
    return any(isinstance(module, SumOfParts) for module in model.modules())


@contextmanager
def recorded_parts(model: nn.Module) -> Iterator[list[Mapping[str, Tensor]]]:
    """Collect the scores ``[B, C]`` of the parts of a hybrid model, for each call in the block."""
    calls: list[Mapping[str, Tensor]] = []
    handles = [
        module.register_forward_pre_hook(lambda _, args: calls.append(args[0]))
        for module in model.modules()
        if isinstance(module, SumOfParts)
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def part_scores(parts: Mapping[str, Tensor], answer: Tensor) -> dict[str, Tensor]:
    """Return what each part adds to the score of an answer ``[B]``, ``[B]``.

    It is the score of the answer minus the mean score of all other answers, so that a constant,
    which changes no prediction, adds nothing. For two classes, these are the parts of the log-odds,
    whose sum are the log-odds.
    """

    def added(scores: Tensor) -> Tensor:
        score = scores.gather(1, answer[:, None])[:, 0]
        return score - (scores.sum(1) - score) / max(scores.shape[1] - 1, 1)

    return {name: added(scores) for name, scores in parts.items()}


def fractions(added: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the fraction of each part: its mean absolute value, over the sum of all parts."""
    sizes = {name: float(values.abs().mean()) for name, values in added.items()}
    total = sum(sizes.values()) or 1.0
    return {name: size / total for name, size in sizes.items()}


def answer_parts(parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return :func:`part_scores` of the best answer in each row, ``[B]``."""
    return part_scores(parts, torch.stack(tuple(parts.values())).sum(0).argmax(1))


def parts_text(fraction: Mapping[str, float]) -> str:
    """Return the fractions as text, such as "60 % naive Bayes, 40 % network"."""
    ordered = sorted(fraction.items(), key=lambda part: -part[1])
    return ", ".join(f"{100 * value:.0f} % {name}" for name, value in ordered)
