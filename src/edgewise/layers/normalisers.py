"""Learned normalisers: what makes weights of scores, with a parameter of its own in each head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.arguments import check_choice
from edgewise.normalisers import NORMALISERS, Entmax, Normaliser

LAYER_NORMALISERS = (*NORMALISERS, "learned")
"""Every normaliser that a Transformer can be made with, by name."""


class LearnedEntmax(nn.Module):
    r"""α-entmax whose α each head learns, :math:`\alpha_h = 1 + \sigma(a_h)`, from 1.5 on.

    How sparse a head's weights are is then its own affair, between softmax and sparsemax (Correia
    et al., Adaptively sparse Transformers, 2019).

    Args:
        heads: H.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(heads))

    @property
    def alpha(self) -> Tensor:
        """α of each head, ``[H]``."""
        return 1 + self.weight.sigmoid()

    def forward(self) -> Entmax:
        """The normaliser of this call."""
        return Entmax(self.alpha)


def layer_normaliser(given: Normaliser | str, heads: int) -> Normaliser | LearnedEntmax:
    """The normaliser of this name for so many heads; one that is given as it is."""
    if given == "learned":
        return LearnedEntmax(heads)
    if isinstance(given, str):
        check_choice("normaliser", given, LAYER_NORMALISERS)
    return given  # type: ignore[return-value]
