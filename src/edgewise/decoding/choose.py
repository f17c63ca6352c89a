"""Choice of the next token: greedy, or sampling with temperature, top-k and top-p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range

Choose = Callable[[Tensor], Tensor]
"""Function from logits ``[B, vocab_size]`` to tokens ``[B]``."""


@dataclass(frozen=True)
class Greedy:
    """Greedy decoding: choose the most probable token.

    Example:
        >>> import torch
        >>> from edgewise.decoding import Greedy
        >>> Greedy()(torch.tensor([[0.0, 1.0, 9.0]]))
        tensor([2])
    """

    def __call__(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1)


@dataclass(frozen=True)
class Sample:
    """Sampling from softmax(logits / temperature), optionally restricted to probable tokens.

    Args:
        temperature: sampling temperature. Lower is more deterministic.
        top_k: sample from the k most probable tokens only (Fan et al., 2018).
        top_p: sample only from the smallest set of most probable tokens (among the top k) whose
            probabilities sum to at least p (Holtzman et al., 2020).
        generator: random number generator, for reproducible texts.

    Example:
        >>> import torch
        >>> from edgewise.decoding import Sample
        >>> logits = torch.tensor([[0.0, 1.0, 9.0]])
        >>> Sample(temperature=0.8, top_k=1)(logits)
        tensor([2])
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        remedy = "use Greedy() for the most probable token"
        check_range("temperature", self.temperature, remedy, above=0)
        if self.top_k is not None:
            check_range("top_k", self.top_k, remedy, least=1, integer=True)
        if self.top_p is not None:
            check_range("top_p", self.top_p, remedy, above=0, most=1)

    def __call__(self, logits: Tensor) -> Tensor:
        chosen = torch.multinomial(self.probabilities(logits), 1, generator=self.generator)
        return chosen.squeeze(-1)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the sampling probabilities ``[B, vocab_size]``, 0 for excluded tokens."""
        logits = logits.float() / self.temperature
        if self.top_k is not None:
            least = logits.topk(min(self.top_k, logits.shape[-1])).values[..., -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.top_p is not None:
            ordered, order = logits.sort(descending=True)
            probability = ordered.softmax(-1)
            # Exclude a token if the more probable tokens already reach top_p.
            reached = probability.cumsum(-1) - probability >= self.top_p
            logits = logits.masked_fill(reached.gather(-1, order.argsort(-1)), -torch.inf)
        return logits.softmax(-1)
