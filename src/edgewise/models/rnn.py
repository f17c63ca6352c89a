"""Plain recurrent network, a baseline over the chain.

Formula: h_t = tanh(W x_t + U h_{t-1} + b)
Graph: the chain: each token reads the state of the one before it
Score: none
Encoding: none; the order is in the recurrence
Normalisation: none
Update: the state itself, in ``depth`` layers
Paper: Elman, Finding structure in time, 1990
"""

from __future__ import annotations

from torch import nn

from edgewise.arguments import checked
from edgewise.layers import LanguageModelHead, RecurrentReader, TextEmbedding, TextModel


@checked()
def rnn(
    vocabulary: int,
    *,
    width: int = 128,
    depth: int = 2,
    bidirectional: bool = False,
    dropout: float = 0.1,
) -> TextModel:
    """States of tokens; ``model.logits(states)`` are the logits of each next token.

    With ``bidirectional`` half of each state reads from the end, for classifiers and taggers
    (Schuster and Paliwal, Bidirectional recurrent neural networks, 1997).
    """
    reader = RecurrentReader(nn.RNN, width, depth, bidirectional=bidirectional, dropout=dropout)
    embedding = TextEmbedding(vocabulary, width, dropout=dropout)
    return TextModel(embedding, reader, LanguageModelHead(vocabulary, width))
