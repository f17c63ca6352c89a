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
    pressure (Henry's law) and to the temperature, for things that were never seen, too. Without
    conditions a is all there is.

    Args:
        width: of z, the thing.
        condition_width: of c, the conditions; 0 for none.
        out_width: of y.
        hidden: of the networks a, b and f.
        dropout: inside of them.
    """

    def __init__(
        self, width: int, condition_width: int, out_width: int, hidden: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.lines = nn.Sequential(
            *_layer(width, hidden, dropout), nn.Linear(hidden, out_width * (1 + condition_width))
        )
        self.rest = None
        if condition_width:
            first, second = _layer(width + condition_width, hidden, dropout), _layer(hidden, hidden)
            self.rest = nn.Sequential(*first, *second, nn.Linear(hidden, out_width))
            self.common = nn.Linear(condition_width, out_width)
            for last in (self.lines[-1], self.rest[-1]):
                assert isinstance(last, nn.Linear)
                last.weight.data *= START

    def forward(self, z: Tensor, condition: Tensor | None = None) -> Tensor:
        """``[B, out_width]`` from z ``[B, width]`` and conditions ``[B, condition_width]``."""
        if self.rest is None or condition is None:
            own: Tensor = self.lines(z)
            return own
        line = self.lines(z).unflatten(-1, (-1, 1 + condition.shape[-1]))
        own = line[..., 0] + (line[..., 1:] * condition.unsqueeze(-2)).sum(-1)
        out: Tensor = own + self.common(condition) + self.rest(torch.cat([z, condition], dim=-1))
        return out


def _layer(width: int, hidden: int, dropout: float = 0.0) -> list[nn.Module]:
    return [nn.Linear(width, hidden), nn.SiLU(), nn.Dropout(dropout)]
