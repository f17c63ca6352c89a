"""Forecaster, a Transformer that reads the history of a series and says how the next season differs.

Formula: ŷ_h = x_{T+h-s} + σ·(W z_T)_h; z = Transformer((x - μ) / σ), μ and σ of the window itself
Graph: causal by default; any pattern over the steps of the history
Score: Dot (scaled), full projections
Encoding: learned, one vector for each step
Normalisation: softmax over the neighbourhood; layer norm, pre
Update: residual, then a feed-forward network (GELU) with a residual of its own
Paper: Kim et al., Reversible instance normalization for accurate time-series forecasting, 2022
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from edgewise.encodings import Learned
from edgewise.graphs import Pattern, causal
from edgewise.models.transformer_encoder import transformer_encoder


class Forecaster(nn.Module):
    """Before any training it repeats the last season."""

    def __init__(self, stack: nn.Module, width: int, history: int, horizon: int, season: int):
        super().__init__()
        self.embed, self.positions = nn.Linear(2, width), Learned(history, width)
        self.stack, self.head = stack, nn.Linear(width, horizon)
        for parameter in self.head.parameters():
            nn.init.zeros_(parameter)
        ahead = torch.arange(horizon)
        self.register_buffer("before", ahead % season - season, persistent=False)

    def forward(self, history: Tensor) -> Tensor:
        """``[B, horizon]`` from ``[B, T]``, both in the unit of the series."""
        std, mean = torch.std_mean(history, dim=-1, keepdim=True)
        std = std.clamp(min=1e-6)
        season, length = -int(self.before.min()), history.shape[-1]
        rise = torch.zeros_like(history)  # since a season ago, where that is known
        rise[..., season:] = history[..., season:] - history[..., : length - season]
        x = self.embed(torch.stack([(history - mean) / std, rise / std], dim=-1))
        change: Tensor = self.head(self.stack(self.positions(x))[..., -1, :])
        return history[..., self.before] + std * change


def forecaster(
    history: int,
    horizon: int,
    season: int,
    *,
    width: int = 64,
    depth: int = 2,
    heads: int = 4,
    feed_forward: int = 128,
    dropout: float = 0.1,
    graph: Pattern = causal(),  # noqa: B008 - patterns are immutable
) -> Forecaster:
    """Forecasts of ``horizon`` steps; called ``model(history [B, T])``."""
    sizes: dict[str, Any] = {"depth": depth, "heads": heads, "feed_forward": feed_forward}
    options: dict[str, Any] = {"act": "gelu", "order": "pre", "dropout": dropout, "graph": graph}
    stack = transformer_encoder(width, **sizes, **options)
    return Forecaster(stack, width, history, horizon, season)
