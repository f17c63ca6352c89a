"""Choosing the next token: greedily, or by sampling with temperature, top-k and top-p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise.arguments import check_count, check_positive, check_probability

Choose = Callable[[Tensor], Tensor]
"""From logits ``[B, vocabulary]`` to tokens ``[B]``."""


@dataclass(frozen=True)
class Greedy:
    """The token with the highest score."""

    def __call__(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1)


@dataclass(frozen=True)
class Sample:
    """A token by chance, with probability softmax(logits / temperature) among those kept.

    Args:
        temperature: below 1 sharper, above 1 flatter.
        top_k: keep only the k most probable tokens (Fan et al., 2018).
        top_p: of these, keep the fewest whose probabilities reach p (Holtzman et al., 2020).
        generator: of the random numbers, for the same text twice.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        remedy = "use Greedy() for the best token alone"
        check_positive("temperature", self.temperature, remedy)
        if self.top_k is not None:
            check_count("top_k", self.top_k, 1, remedy)
        if self.top_p is not None:
            check_positive("top_p", self.top_p, remedy)
            check_probability("top_p", self.top_p, remedy)

    def __call__(self, logits: Tensor) -> Tensor:
        chosen = torch.multinomial(self.probabilities(logits), 1, generator=self.generator)
        return chosen.squeeze(-1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """``[B, vocabulary]``: what each token is drawn with, 0 for those not kept."""
        logits = logits.float() / self.temperature
        if self.top_k is not None:
            least = logits.topk(min(self.top_k, logits.shape[-1])).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.top_p is not None:
            ordered, order = logits.sort(descending=True)
            share = ordered.softmax(-1)
            reached = share.cumsum(-1) - share >= self.top_p  # before this token already
            logits = logits.masked_fill(reached.gather(-1, order.argsort(-1)), -torch.inf)
        return logits.softmax(-1)
