"""Forecaster: a Transformer that predicts the change of a time series since the last season.

Formula: ŷ_h = x_{T+h-s} + σ·(W z_T + A u)_h, u = (x - μ) / σ, z = Transformer(u, d),
    d_t = (x_t - x_{t-s}) / σ, season length s; for h > s the last season repeats
Graph: causal by default, or any pattern over the T past time steps
Score: ``Dot`` (scaled dot product); each head projects all features
Encoding: learned, one vector per time step
Normalisation: softmax over the neighbourhood; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Kim et al., Reversible instance normalization for accurate time-series forecasting, 2022

The mean μ and standard deviation σ are those of the T past values x. The linear path A follows Zeng
et al., Are Transformers effective for time series forecasting?, 2023.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range, describe
from edgewise._utils.errors import ArgumentError
from edgewise.encodings import Learned
from edgewise.graphs import Pattern, causal
from edgewise.models.arguments import model_factory
from edgewise.models.transformer_encoder import transformer_encoder

# Factor of the output of A. A starts at 0, far from its optimum, and the factor speeds up learning.
DIRECT_RATE = 100.0


class Forecaster(nn.Module):
    r"""Transformer that forecasts a time series by its change since the last season.

    .. math:: \hat y_h = x_{T+h-s} + \sigma\,(W z_T + A u)_h, \qquad u = (x - \mu) / \sigma

    Here s is the season length, μ and σ are the mean and standard deviation of the history x, and
    :math:`z_T` is the Transformer's state of the last time step. For h > s, the last season
    repeats. The Transformer's inputs are u and the seasonal differences
    :math:`(x_t - x_{t-s}) / σ`. W and A start at zero, so the untrained model
    repeats the last season. Called as ``model(history [B, T])``.

    Args:
        history: number of past time steps T that the model reads.
        horizon: number of steps to forecast.
        season: season length in steps, at most ``history``.
        graph: attention graph, which defines the time steps that each step attends to.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.forecaster(history=36, horizon=12, season=12)
        >>> model(torch.randn(2, 36)).shape
        torch.Size([2, 12])
    """

    def __init__(
        self,
        history: int,
        horizon: int,
        season: int,
        *,
        width: int = 64,
        depth: int = 2,
        heads: int = 4,
        ffn_dim: int = 128,
        dropout: float = 0.1,
        graph: Pattern = causal(),
    ) -> None:
        super().__init__()
        check_range(
            "season", season, "choose a shorter season or a longer history", least=1, most=history
        )
        stack = transformer_encoder(
            width,
            depth=depth,
            heads=heads,
            ffn_dim=ffn_dim,
            act="gelu",
            order="pre",
            dropout=dropout,
            graph=graph,
        )
        self.embed, self.positions = nn.Linear(2, width), Learned(history, width)
        self.stack, self.head = stack, nn.Linear(width, horizon)
        self.direct = nn.Linear(history, horizon, bias=False)
        for parameter in (*self.head.parameters(), *self.direct.parameters()):
            nn.init.zeros_(parameter)
        self.history, self.horizon, self.season = history, horizon, season

    def forward(self, history: Tensor) -> Tensor:
        """Return forecasts ``[B, horizon]``, of the unit and dtype of ``history`` ``[B, T]``."""
        season, length = self.season, history.shape[-1]
        if length != self.history:
            raise ArgumentError(
                "history",
                expected=f"series [B, {self.history}]",
                got=describe(history),
                remedy="pass as many past values as the model was built for",
            )
        std, mean = torch.std_mean(history, dim=-1, keepdim=True)
        scale = std.masked_fill(std == 0, 1.0)
        difference = torch.zeros_like(history)  # Seasonal difference, 0 in the first season.
        difference[..., season:] = history[..., season:] - history[..., : length - season]
        dtype = self.positions.table.dtype
        u = ((history - mean) / scale).to(dtype)
        x = self.embed(torch.stack([u, (difference / scale).to(dtype)], dim=-1))
        last_state = self.stack(self.positions(x))[..., -1, :]
        change: Tensor = self.head(last_state) + DIRECT_RATE * self.direct(u)
        step = torch.arange(self.horizon, device=history.device)
        last_season = history[..., step % season - season]
        return last_season + std * change


# The standard deviation of a single value is undefined.
forecaster = model_factory(Forecaster, depth=0, history=2)
