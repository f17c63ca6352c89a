"""A series read as a sequence, and the steps that come after it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.encodings import Learned


class Forecaster(nn.Module):
    r"""How the next steps differ from the last season's, :math:`x_{T+h-s} + \sigma\,(W z_T)_h`.

    Before any training W is zero, so that it repeats the last season.

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
        for parameter in self.head.parameters():
            nn.init.zeros_(parameter)
        self.horizon, self.season = horizon, season

    def forward(self, history: Tensor) -> Tensor:
        """``[B, horizon]`` from ``[B, T]``, both in the unit of the series."""
        std, mean = torch.std_mean(history, dim=-1, keepdim=True)
        std = std.clamp(min=1e-6)
        season, length = self.season, history.shape[-1]
        rise = torch.zeros_like(history)  # since a season ago, where that is known
        rise[..., season:] = history[..., season:] - history[..., : length - season]
        ahead = torch.arange(self.horizon, device=history.device)
        x = self.embed(torch.stack([(history - mean) / std, rise / std], dim=-1))
        change: Tensor = self.head(self.stack(self.positions(x))[..., -1, :])
        return history[..., ahead % season - season] + std * change
