"""Score functions: how well does a query fit a key?

A score takes two tensors that broadcast against each other, ``[..., H, D]`` each, and gives
``[..., H]``. Engines recognise the classes here and compute them fused; any other callable of that
form works too, on the engines that gather or pair the vectors themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.arguments import check_choice

Score = Callable[[Tensor, Tensor], Tensor] | None
"""``Dot``, ``Additive``, any callable of their form, or ``None`` (bias alone decides)."""


@dataclass(frozen=True, eq=False)
class Dot:
    r"""Scaled dot product, :math:`s = \text{scale} \cdot q^\top k` (Vaswani et al., 2017).

    For independent entries of variance σ² the product has variance σ⁴·D, hence the default scale
    1/√D. A bilinear score :math:`q^\top W k` is ``Dot`` on ``query @ W``.
    """

    scale: float | None = None

    def scale_for(self, width: int) -> float:
        """The factor in use for head width ``width``."""
        return self.scale if self.scale is not None else max(width, 1) ** -0.5

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        return (query * key).sum(-1) * self.scale_for(query.shape[-1])


DOT = Dot()
"""The default score."""

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": F.gelu,
    "silu": F.silu,
}


@dataclass(frozen=True, eq=False)
class Additive:
    r"""Additive energy, :math:`s = a^\top \mathrm{act}(q + k)`.

    * GAT (Veličković et al., 2018): ``D = 1`` and no ``weight``; q and k already are aᵀWh.
    * GATv2 (Brody et al., 2022): a ``weight`` a of shape ``[H, D]``.
    * The tanh MLP energy (Bahdanau et al., 2015): ``Additive("tanh", weight)``.

    Args:
        activation: ``leaky_relu``, ``relu``, ``tanh``, ``gelu``, ``silu`` or ``identity``.
        weight: ``[H, D]``, or ``None`` when D = 1.
        negative_slope: slope of the leaky ReLU below zero.

    """

    activation: str = "leaky_relu"
    weight: Tensor | None = None
    negative_slope: float = 0.2

    def __post_init__(self) -> None:
        check_choice("activation", self.activation, ["leaky_relu", *ACTIVATIONS])

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        energy = query + key
        if self.activation == "leaky_relu":
            energy = F.leaky_relu(energy, self.negative_slope)
        else:
            energy = ACTIVATIONS[self.activation](energy)
        if self.weight is not None:
            energy = energy * self.weight.to(energy.dtype)
        return energy.sum(-1)
