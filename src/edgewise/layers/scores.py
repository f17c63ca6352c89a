"""Learned attention scores: each prepares query and key for a score of the primitive.

So every score is computed by the engines, fused where they can, and works on any graph.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from edgewise.arguments import check_choice
from edgewise.scores import DOT, Additive, Score


class LearnedScore(nn.Module):
    """A score with weights: ``module(query, key)`` gives query, key and the score to compare them.

    Query ``[..., N_dst, H, D]`` and key ``[..., N_src, H, D]`` may come back with another width.
    """

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        raise NotImplementedError


class ScaledDot(LearnedScore):
    r"""No weights, :math:`s = q^\top k / \sqrt D` (Vaswani et al., 2017).

    Args:
        heads, width: H and D; it does not depend on them.
    """

    def __init__(self, heads: int, width: int) -> None:  # noqa: ARG002 - as the others
        super().__init__()

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        return query, key, DOT


class Bilinear(LearnedScore):
    r"""A matrix a head, :math:`s = q^\top W k / \sqrt D` (Luong et al., 2015).

    Args:
        heads, width: H and D.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width).repeat(heads, 1, 1))
        nn.init.trunc_normal_(self.weight, std=width**-0.5)

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        return torch.einsum("...hd,hde->...he", query, self.weight), key, DOT


class TanhMLP(LearnedScore):
    r"""A network a head, :math:`s = W_2 \tanh(W_1 [q; k] + b)` (Bahdanau et al., 2015).

    :math:`W_1 [q; k]` is a map of q plus a map of k, so that no pair is ever concatenated.

    Args:
        heads, width: H and D.
        hidden: width of the hidden layer; D by default.
    """

    def __init__(self, heads: int, width: int, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or width
        self.query, self.key = (nn.Parameter(torch.empty(heads, width, hidden)) for _ in range(2))
        self.bias = nn.Parameter(torch.zeros(heads, hidden))
        self.weight = nn.Parameter(torch.empty(heads, hidden))
        for weight in (self.query, self.key, self.weight):
            nn.init.uniform_(weight, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        query = torch.einsum("...hd,hde->...he", query, self.query) + self.bias
        key = torch.einsum("...hd,hde->...he", key, self.key)
        return query, key, Additive("tanh", self.weight)


class Concatenation(LearnedScore):
    r"""GAT's, :math:`s = \mathrm{leaky}(a^\top [q; k])` (Veličković et al., 2018).

    :math:`a^\top [q; k]` is a number of q plus a number of k: heads of width 1 for the engines.

    Args:
        heads, width: H and D.
        negative_slope: of the leaky ReLU.
    """

    def __init__(self, heads: int, width: int, negative_slope: float = 0.2) -> None:
        super().__init__()
        self.query, self.key = (nn.Parameter(torch.empty(heads, width)) for _ in range(2))
        for weight in (self.query, self.key):
            nn.init.xavier_uniform_(weight)
        self.negative_slope = negative_slope

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        query = (query * self.query).sum(-1, keepdim=True)
        key = (key * self.key).sum(-1, keepdim=True)
        return query, key, Additive(negative_slope=self.negative_slope)


SCORES: dict[str, type[LearnedScore]] = {
    "dot": ScaledDot,
    "bilinear": Bilinear,
    "tanh": TanhMLP,
    "concatenation": Concatenation,
}
"""Every score that a Transformer can be made with, by name; ``SCORES[name](heads, width)``."""


def learned_score(name: str, heads: int, width: int) -> LearnedScore:
    """The score of this name for heads of this width."""
    check_choice("score", name, SCORES)
    return SCORES[name](heads, width)
