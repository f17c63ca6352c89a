"""Heads for fine-tuning: a label for the whole text, or one for every token."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs.batch import Sizes
from edgewise.layers.pooling import Pool, Pooling


class PooledHead(nn.Module):
    r"""Scores of a text, :math:`W \tanh(P x_0)` of its first token (BERT) or another pooling.

    Args:
        width: of the states.
        out_width: how many scores.
        pool: which state, or which mean of them; see :class:`edgewise.layers.Pool`.
        dropout: before W.
    """

    def __init__(
        self, width: int, out_width: int, *, pool: Pooling = "class", dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.pool, self.dense = Pool(pool), nn.Linear(width, width)
        self.dropout, self.output = nn.Dropout(dropout), nn.Linear(width, out_width)

    def forward(self, states: Tensor, sizes: Sizes | None = None) -> Tensor:
        """``[B, out_width]`` from ``[B, T, width]``, or from a packed batch ``[N, width]``."""
        pooled = self.dense(self.pool(states, sizes)).tanh()
        scores: Tensor = self.output(self.dropout(pooled))
        return scores


class TokenHead(nn.Sequential):
    """Scores of every token, ``[..., T, out_width]`` from states ``[..., T, width]``.

    Args:
        width: of the states.
        out_width: how many scores.
        dropout: before the map.
    """

    def __init__(self, width: int, out_width: int, *, dropout: float = 0.1) -> None:
        super().__init__(nn.Dropout(dropout), nn.Linear(width, out_width))
