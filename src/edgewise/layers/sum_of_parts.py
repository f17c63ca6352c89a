"""Sum of the scores of the parts of a hybrid model."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn


class SumOfParts(nn.Module):
    """Sum of scores ``[B, C]`` by name of the part, such as a network and naive Bayes.

    It is a module so that explanations can read the parts with a hook.
    """

    def forward(self, parts: Mapping[str, Tensor]) -> Tensor:
        first, *others = parts.values()
        for scores in others:
            first = first + scores
        return first
