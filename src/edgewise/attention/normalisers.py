"""Normalisers: functions from the scores of a target to weights that sum to 1."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Literal

from torch import Tensor

from edgewise._utils.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Entmax:
    r"""α-entmax: sparse weights, many of them exactly 0 (Peters et al., 2019).

    .. math:: w_{ij} = \big[(\alpha - 1)\, s_{ij} - \tau_i\big]_+^{1 / (\alpha - 1)}, \qquad
              \sum_j w_{ij} = 1

    The threshold τ of each target makes its weights sum to 1. α = 1 is softmax and α = 2 is
    sparsemax (Martins and Astudillo, 2016). α can be learned for each head (Correia et al., 2019).

    Args:
        alpha: α from 1 to 2: a number, or a tensor ``[H]`` with one number per head.

    Raises:
        ArgumentError: if α is out of this range.

    Example:
        >>> import torch, edgewise
        >>> query = key = torch.tensor([[[0.0]], [[1.0]], [[4.0]]])
        >>> complete, entmax = edgewise.graphs.complete(), edgewise.Entmax(2.0)
        >>> edgewise.attention_weights(query, key, complete, normaliser=entmax).view(3, 3)
        tensor([[0.3333, 0.3333, 0.3333],
                [0.0000, 0.0000, 1.0000],
                [0.0000, 0.0000, 1.0000]])
    """

    alpha: float | Tensor = 1.5

    def __post_init__(self) -> None:
        if isinstance(self.alpha, Tensor):
            return  # attend checks a tensor, because it knows the number of heads.
        if not (isinstance(self.alpha, Real) and 1.0 <= self.alpha <= 2.0):
            raise alpha_out_of_range(repr(self.alpha))


def alpha_out_of_range(got: str) -> ArgumentError:
    """Return the error for α below 1 or above 2; ``got`` is the value as text."""
    return ArgumentError(
        "normaliser.alpha",
        expected="numbers from 1 (softmax) to 2 (sparsemax)",
        got=got,
        remedy="clip alpha, or learn a parameter a and pass 1 + sigmoid(a)",
    )


Normaliser = Literal["softmax", "sparsemax", "entmax"] | Entmax
"""Type of a normaliser: a name or an :class:`Entmax`. The name "entmax" means α = 1.5."""

NORMALISERS: dict[str, Entmax | None] = {
    "softmax": None,
    "sparsemax": Entmax(2.0),
    "entmax": Entmax(1.5),
}
"""Normaliser of each name. Softmax is ``None``, because all engines support it."""
