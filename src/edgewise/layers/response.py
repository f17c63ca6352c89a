"""What a thing does under given conditions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

START = 0.1  # how much of the usual slopes and f a response begins with


class Response(nn.Module):
    r"""Numbers about a thing under conditions to which it responds about linearly.

    .. math:: y = a(z) + b(z) \cdot c + f([z; c])

    Intercept a and slopes b depend on the thing, f is what they leave; in the beginning things
    differ little, and learn to. So the logit of what dissolves responds to the logarithm of the
    pressure (Henry's law) and to the temperature, for things that were never seen, too.

    Args:
        width: of z, the thing.
        condition_width: of c, the conditions.
        out_width: of y.
        hidden: of the networks a, b and f.
        dropout: inside of them.
    """

    def __init__(
        self, width: int, condition_width: int, out_width: int, hidden: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        lines = out_width * (1 + condition_width)
        self.lines = nn.Sequential(
            nn.Linear(width, hidden), nn.SiLU(), nn.Dropout(dropout), nn.Linear(hidden, lines)
        )
        self.rest = nn.Sequential(
            nn.Linear(width + condition_width, hidden),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, out_width),
        )
        self.common = nn.Linear(condition_width, out_width)
        for last in (self.lines[-1], self.rest[-1]):
            assert isinstance(last, nn.Linear)
            last.weight.data *= START

    def forward(self, z: Tensor, condition: Tensor) -> Tensor:
        """``[B, out_width]`` from z ``[B, width]`` and conditions ``[B, condition_width]``."""
        line = self.lines(z).unflatten(-1, (-1, 1 + condition.shape[-1]))
        own = line[..., 0] + (line[..., 1:] * condition.unsqueeze(-2)).sum(-1)
        out: Tensor = own + self.common(condition) + self.rest(torch.cat([z, condition], dim=-1))
        return out
