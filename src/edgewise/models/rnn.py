"""Plain recurrent network, a baseline.

Formula: h_t = tanh(W x_t + U h_{t-1} + b)
Graph: a chain; each token receives the state of the previous token
Score: none
Encoding: none; the recurrence encodes the order
Normalisation: none
Update: the recurrent state, in ``depth`` layers
Paper: Elman, Finding structure in time, 1990
"""

from __future__ import annotations

from torch import nn

from edgewise.layers.recurrent import RecurrentModel
from edgewise.models.arguments import model_factory


class RNN(RecurrentModel):
    """RNN language model.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.rnn(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """

    cell = nn.RNN


rnn = model_factory(RNN)
