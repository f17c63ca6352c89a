"""Normalisers of attention scores with a learned parameter for each head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise.attention.normalisers import NORMALISERS, Entmax, Normaliser

LAYER_NORMALISERS = (*NORMALISERS, "learned")
"""Names of the normalisers that Transformer layers accept."""


class LearnedEntmax(nn.Module):
    r"""α-entmax with a learned α for each head, :math:`\alpha_h = 1 + \sigma(a_h)`, initially 1.5.

    Paper: Correia et al., Adaptively sparse Transformers, 2019

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> attention = layers.MultiHeadAttention(32, heads=4, normaliser="learned")
        >>> attention(torch.randn(10, 32), graphs.complete()).shape
        torch.Size([10, 32])
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads))

    @property
    def alpha(self) -> Tensor:
        """Value of α for each head, ``[H]``."""
        return 1 + self.weight.sigmoid()

    def forward(self) -> Entmax:
        """Return a normaliser for :func:`edgewise.attend` with the current α."""
        return Entmax(self.alpha)


def layer_normaliser(normaliser: Normaliser | str, heads: int) -> Normaliser | LearnedEntmax:
    """Return the normaliser with this name, for ``heads`` heads; return an object unchanged."""
    if normaliser == "learned":
        return LearnedEntmax(heads)
    if isinstance(normaliser, str):
        check_choice("normaliser", normaliser, LAYER_NORMALISERS)
    return normaliser  # type: ignore[return-value]
