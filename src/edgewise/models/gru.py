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

from edgewise.layers.recurrent import RecurrentModel
from edgewise.models.arguments import model_factory


class GRU(RecurrentModel):
    """GRU language model.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.gru(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """

    cell = nn.GRU


gru = model_factory(GRU)
