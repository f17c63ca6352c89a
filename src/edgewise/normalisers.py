"""Normalisers: how the scores of what a target reads become weights that sum to 1."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Literal

from torch import Tensor

from edgewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Entmax:
    r"""α-entmax: weights of which many are 0, exactly (Peters et al., 2019).

    .. math:: w_{ij} = \big[(\alpha - 1)\, s_{ij} - \tau_i\big]_+^{1 / (\alpha - 1)}, \qquad
              \sum_j w_{ij} = 1

    α = 1 is softmax and α = 2 is sparsemax (Martins and Astudillo, 2016). With a tensor each head
    has an α of its own, which can be learned (Correia et al., 2019).

    Args:
        alpha: α from 1 to 2, a number or ``[H]``.

    Raises:
        ArgumentError: an α outside of that.

    """

    alpha: float | Tensor = 1.5

    def __post_init__(self) -> None:
        if isinstance(self.alpha, Tensor):
            return  # its numbers are looked at with the call, where its heads are known
        if not (isinstance(self.alpha, Real) and 1.0 <= self.alpha <= 2.0):
            raise alpha_out_of_range(repr(self.alpha))


def alpha_out_of_range(got: str) -> ArgumentError:
    """The error of an α below softmax's or above sparsemax's."""
    return ArgumentError(
        "normaliser.alpha",
        expected="from 1 (softmax) to 2 (sparsemax)",
        got=got,
        remedy="clip it, or learn a number a and take 1 + sigmoid(a)",
    )


Normaliser = Literal["softmax", "sparsemax", "entmax"] | Entmax
"""A name, where ``"entmax"`` is α = 1.5, or an α of one's own."""

NORMALISERS: dict[str, Entmax | None] = {
    "softmax": None,
    "sparsemax": Entmax(2.0),
    "entmax": Entmax(1.5),
}
"""What the names stand for; ``None`` is softmax, which all engines compute."""
