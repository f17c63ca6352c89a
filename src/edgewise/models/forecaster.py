"""Forecaster: a Transformer reads the history of a series and says how the next season differs.

Formula: ŷ_h = x_{T+h-s} + σ·(W z_T + A u)_h; z = Transformer(u), u = (x - μ) / σ, of each window
Graph: causal by default; any pattern over the steps of the history
Score: Dot (scaled), full projections
Encoding: learned, one vector for each step
Normalisation: softmax over the neighbourhood; layer norm before each sublayer
Update: residual connection, then a feed-forward network (GELU) with its own
Paper: Kim et al., Reversible instance normalization for accurate time-series forecasting, 2022

A, a linear path: Zeng et al., Are Transformers effective for time series forecasting?, 2023.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.arguments import checked
from edgewise.encodings import Learned
from edgewise.graphs import Pattern, causal
from edgewise.models.transformer_encoder import transformer_encoder

DIRECT_RATE = 100.0  # how much faster A learns than the rest: it is one matrix, and far from zero


class Forecaster(nn.Module):
    r"""How the next steps differ from the last season's.

    .. math:: \hat y_h = x_{T+h-s} + \sigma\,(W z_T + A u)_h

    A reads the normalised history u at once, and the Transformer what is not linear in it. Before
    any training W and A are zero, so that it repeats the last season.

    Args:
        stack: called ``stack(x [..., T, width])``.
        width: of its features.
        history: T, how many steps are read.
        horizon: how many come after.
        season: s, at most T.
    """

    def __init__(self, stack: nn.Module, width: int, history: int, horizon: int, season: int):
        super().__init__()
        self.embed, self.positions = nn.Linear(2, width), Learned(history, width)
        self.stack, self.head = stack, nn.Linear(width, horizon)
        self.direct = nn.Linear(history, horizon, bias=False)
        for parameter in (*self.head.parameters(), *self.direct.parameters()):
            nn.init.zeros_(parameter)
        self.horizon, self.season = horizon, season

    def forward(self, history: Tensor) -> Tensor:
        """``[B, horizon]`` from ``[B, T]``, both in the unit of the series."""
        season, length = self.season, history.shape[-1]
        std, mean = torch.std_mean(history, dim=-1, keepdim=True)
        std = std.clamp(min=1e-6)
        rise = torch.zeros_like(history)  # since a season ago, where that is known
        rise[..., season:] = history[..., season:] - history[..., : length - season]
        u = (history - mean) / std
        x = self.embed(torch.stack([u, rise / std], dim=-1))
        last_state = self.stack(self.positions(x))[..., -1, :]
        change: Tensor = self.head(last_state) + DIRECT_RATE * self.direct(u)
        ahead = torch.arange(self.horizon, device=history.device)
        last_season = history[..., ahead % season - season]
        return last_season + std * change


@checked(depth=0)
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
    """Build a Transformer that forecasts a time series.

    Called as ``model(history [B, T])``.

    Args:
        history: context length T: number of past steps.
        horizon: number of steps to forecast.
        season: season length in steps, at most ``history``.
        width: hidden size.
        depth: number of layers.
        heads: number of attention heads per layer.
        feed_forward: FFN dimension: hidden size of the feed-forward networks.
        dropout: dropout probability.
        graph: attention graph: which time steps each step attends to.
    """
    stack = transformer_encoder(
        width,
        depth=depth,
        heads=heads,
        feed_forward=feed_forward,
        act="gelu",
        order="pre",
        dropout=dropout,
        graph=graph,
    )
    return Forecaster(stack, width, history, horizon, season)
