"""Plain recurrent network, a baseline.

Formula: h_t = tanh(W x_t + U h_{t-1} + b)
Graph: a chain; each token takes the state of the previous one
Score: none
Encoding: none; the recurrence encodes the order
Normalisation: none
Update: the recurrent state, in ``depth`` layers
Paper: Elman, Finding structure in time, 1990
"""

from __future__ import annotations

from torch import nn

from edgewise.arguments import checked
from edgewise.layers import LanguageModelHead, RecurrentBackbone, TextEmbedding, TextModel


@checked()
def rnn(
    vocab_size: int,
    *,
    width: int = 128,
    depth: int = 2,
    bidirectional: bool = False,
    dropout: float = 0.1,
) -> TextModel:
    """Build a plain recurrent language model.

    ``model.logits(states)`` gives the logits of the next token at each position. A bidirectional
    model is for classification and tagging (Schuster and Paliwal, Bidirectional recurrent neural
    networks, 1997).

    Args:
        vocab_size: vocab size: number of token ids.
        width: hidden size.
        depth: number of layers.
        bidirectional: read each text in both directions, with half of the hidden size each.
        dropout: dropout probability of the embedding and between the layers.
    """
    backbone = RecurrentBackbone(nn.RNN, width, depth, bidirectional=bidirectional, dropout=dropout)
    embedding = TextEmbedding(vocab_size, width, dropout=dropout)
    return TextModel(embedding, backbone, LanguageModelHead(vocab_size, width))
