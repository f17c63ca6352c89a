"""Forecaster: a Transformer reads the history of a series and says how the next season differs.

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

from edgewise.graphs import Pattern, causal
from edgewise.layers import Forecaster
from edgewise.models.transformer_encoder import transformer_encoder
from edgewise.ranges import checked


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
    """Forecasts of ``horizon`` steps; called ``model(history [B, T])``."""
    sizes: dict[str, Any] = {"depth": depth, "heads": heads, "feed_forward": feed_forward}
    options: dict[str, Any] = {"act": "gelu", "order": "pre", "dropout": dropout, "graph": graph}
    stack = transformer_encoder(width, **sizes, **options)
    return Forecaster(stack, width, history, horizon, season)
