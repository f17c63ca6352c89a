"""Long short-term memory, a baseline.

Formula: c_t = f ⊙ c_{t-1} + i ⊙ tanh(W x_t + U h_{t-1}); h_t = o ⊙ tanh(c_t); i, f, o are gates
Graph: a chain; each token receives the state of the previous token
Score: none
Encoding: none; the recurrence encodes the order
Normalisation: none
Update: the recurrent state, in ``depth`` layers
Paper: Hochreiter and Schmidhuber, Long short-term memory, 1997
"""

from __future__ import annotations

from torch import nn

from edgewise.layers.recurrent import RecurrentModel
from edgewise.models.arguments import model_factory


class LSTM(RecurrentModel):
    """LSTM language model.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.lstm(1000)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """

    cell = nn.LSTM


lstm = model_factory(LSTM)
