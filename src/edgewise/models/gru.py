"""Gated recurrent unit, a baseline.

Formula: h_t = (1 - z) ⊙ tanh(W x_t + r ⊙ U h_{t-1}) + z ⊙ h_{t-1}; r, z are gates
Graph: a chain; each token receives the state of the previous token
Score: none
Encoding: none; the recurrence encodes the order
Normalisation: none
Update: the recurrent state, in ``depth`` layers
Paper: Cho et al., Learning phrase representations using RNN encoder-decoder, 2014
"""

from __future__ import annotations

from torch import nn

from edgewise._utils.arguments import checked_factory
from edgewise.layers.recurrent import RecurrentModel


class GRU(RecurrentModel):
    """GRU language model; for the arguments see ``edgewise.layers.recurrent.RecurrentModel``.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.gru(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """

    cell = nn.GRU


gru = checked_factory(GRU)
