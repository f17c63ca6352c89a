"""Attention scores with learned parameters, for Transformer layers.

Each score transforms query and key for a score of :func:`edgewise.attend`, on any engine and graph.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise.attention.scores import DOT, Additive, Score


class LearnedScore(nn.Module):
    """Base class of attention scores with parameters.

    ``module(query, key)`` returns a transformed query and key, and the score object with which
    :func:`edgewise.attend` compares them. The last dimension D of the returned query
    ``[..., N_dst, H, D]`` and key ``[..., N_src, H, D]`` may differ from that of the inputs.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> class Distance(layers.LearnedScore):
        ...     '''Minus the squared distance of query and key, up to a term of the query.'''
        ...
        ...     def forward(self, query, key):
        ...         return 2 * query, key, lambda q, k: (q * k).sum(-1) - k.square().sum(-1)
        >>> query, key, score = Distance()(torch.ones(3, 1, 2), torch.ones(3, 1, 2))
        >>> score(query, key)[0]
        tensor([2.])
    """

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        raise NotImplementedError


class ScaledDot(LearnedScore):
    r"""Scaled dot product, :math:`s = q^\top k / \sqrt D` (Vaswani et al., 2017)."""

    def __init__(self, heads: int, width: int) -> None:  # noqa: ARG002 - part of the interface
        super().__init__()

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        return query, key, DOT


class Bilinear(LearnedScore):
    r"""Bilinear score of each head, :math:`s = q^\top W k / \sqrt D` (Luong et al., 2015)."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width).repeat(heads, 1, 1))
        nn.init.trunc_normal_(self.weight, std=width**-0.5)

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        return torch.einsum("...hd,hde->...he", query, self.weight), key, DOT


class TanhMLP(LearnedScore):
    r"""Additive score per head, :math:`s = W_2 \tanh(W_1 [q; k] + b)` (Bahdanau et al., 2015)."""

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
    r"""Score of GAT, :math:`s = \mathrm{leaky}(a^\top [q; k])` (Veličković et al., 2018)."""

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
"""Score classes of Transformer layers by name; ``SCORES[name](heads, width)`` creates a score."""


def learned_score(name: str, heads: int, width: int) -> LearnedScore:
    """Return a new score with this name, for ``heads`` heads of size ``width``.

    Example:
        >>> import torch
        >>> from edgewise import graphs, layers
        >>> score = layers.learned_score("bilinear", heads=4, width=8)
        >>> attention = layers.MultiHeadAttention(32, heads=4, score=score)
        >>> attention(torch.randn(10, 32), graphs.complete()).shape
        torch.Size([10, 32])
    """
    check_choice("score", name, SCORES)
    return SCORES[name](heads, width)
