"""Scores that a text model is trained on: of tokens, of texts, of words."""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.graphs.batch import Sizes
from edgewise.layers.heads import PooledHead, TokenHead
from edgewise.layers.pooling import Pool
from edgewise.layers.text import TextModel
from edgewise.layers.tokens import Tokens


class TokenScores(nn.Module):
    """Scores of the vocabulary, by the model's own head: of the next token, or of a masked one.

    Args:
        trunk: a text model with a head.
    """

    def __init__(self, trunk: TextModel) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, tokens: Tokens, places: Tensor | None = None) -> Tensor:
        """``[N, vocabulary]``, or ``[M, vocabulary]`` where only these of the N tokens count."""
        states = tokens.states(self.trunk)
        return self.trunk.logits(states if places is None else states[places])


class TextScores(nn.Module):
    """Scores of each text, for a label.

    Args:
        trunk: a text model; its head for tokens is taken away, as nothing would train it.
        head: from states to scores.
    """

    def __init__(self, trunk: TextModel, head: PooledHead) -> None:
        super().__init__()
        trunk.head = None
        self.trunk, self.head = trunk, head

    def forward(self, tokens: Tokens) -> Tensor:
        """``[B, out_width]``."""
        scores: Tensor = self.head(tokens.states(self.trunk), tokens.lengths())
        return scores


class WordScores(nn.Module):
    """Scores of each word, the mean of whose tokens is what the head sees.

    Args:
        trunk: a text model; its head for tokens is taken away, as nothing would train it.
        head: from states to scores.
    """

    def __init__(self, trunk: TextModel, head: TokenHead) -> None:
        super().__init__()
        trunk.head = None
        self.trunk, self.head, self.pool = trunk, head, Pool("mean")

    def forward(self, tokens: Tokens, words: Sizes) -> Tensor:
        """``[W, out_width]`` for words of so many tokens each, which are all that there are."""
        scores: Tensor = self.head(self.pool(tokens.states(self.trunk), words))
        return scores
