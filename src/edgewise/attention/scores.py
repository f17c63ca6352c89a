"""Score functions of a query and a key.

A score function takes two tensors ``[..., H, D]`` that broadcast against each other and returns
``[..., H]``. The engines ``rows`` and ``tiles`` have fused kernels for the classes in this module.
Any other callable works with the engines ``reference`` and ``dense``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise._utils.arguments import check_choice

Score = Callable[[Tensor, Tensor], Tensor] | None
"""Type of a score function: ``Dot``, ``Additive``, a callable, or ``None`` for scores of 0."""


@dataclass(frozen=True, eq=False)
class Dot:
    r"""Scaled dot product, :math:`s = \text{scale} \cdot q^\top k` (Vaswani et al., 2017).

    The default scale is :math:`1/\sqrt D`, because the dot product of two vectors with independent
    entries of mean 0 and variance :math:`σ^2` has variance :math:`σ^4 D`. For a bilinear score
    :math:`q^\top W k`, pass ``query @ W`` as the query.

    Args:
        scale: factor of the dot product; ``None`` means 1/√D.

    Example:
        >>> import torch, edgewise
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> window = edgewise.graphs.window(1)
        >>> edgewise.attend(query, key, value, window, score=edgewise.Dot(1.0)).shape
        torch.Size([10, 4, 8])
    """

    scale: float | None = None

    def scale_for(self, width: int) -> float:
        """Return the scale for heads of this width."""
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
    r"""Additive score, :math:`s = a^\top \mathrm{act}(q + k)`.

    * GAT (Veličković et al., 2018): ``Additive()``; q and k are the scalars :math:`a^\top W h`.
    * GATv2 (Brody et al., 2022): ``Additive(weight=a)``.
    * Bahdanau et al. (2015): ``Additive("tanh", a)``.

    Args:
        activation: act: ``leaky_relu``, ``relu``, ``tanh``, ``gelu``, ``silu`` or ``identity``.
        weight: the vector a of each head, ``[H, D]``; may be ``None`` only if D = 1.
        negative_slope: slope of the leaky ReLU below zero.

    Example:
        >>> import torch, edgewise
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> score = edgewise.Additive(weight=torch.randn(4, 8))  # GATv2
        >>> edgewise.attend(query, key, value, edgewise.graphs.window(1), score=score).shape
        torch.Size([10, 4, 8])
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
