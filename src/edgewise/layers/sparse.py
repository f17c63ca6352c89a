"""Linear map and dropout that accept sparse features (``torch.sparse_csr``)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise._utils.arguments import check_type, describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import aggregate
from edgewise.graphs import Edges, Graph

_GRAPHS = WeakTensorKeyDictionary()


class Linear(nn.Linear):
    r"""``torch.nn.Linear`` that also accepts ``torch.sparse_csr`` features.

    Sparse features are aggregated over the graph of their nonzero entries, :math:`y_i = \sum_j
    x_{ij} W_j + b`; the transpose of x, for gradients, is computed once per matrix.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.Linear(3, 2)(torch.eye(3).to_sparse_csr()).shape
        torch.Size([3, 2])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return features ``[..., out_features]`` from dense or sparse x ``[..., in_features]``.

        Raises:
            ArgumentError: the features do not match the weight in size or dtype, or are integers.
        """
        check_node_features(x, self.in_features, like=self.weight)
        if x.layout is not torch.sparse_csr:
            return super().forward(x)
        words = self.weight.t().unsqueeze(-2)
        y = aggregate(words, word_graph(x), weight=x.values()).squeeze(-2)
        return y if self.bias is None else y + self.bias


def check_node_features(
    x: Tensor, in_width: int | None = None, argument: str = "x", *, like: Tensor | None = None
) -> None:
    """Raise ArgumentError if features are integers, or not of this width and the dtype of like."""
    width = x.shape[-1:] if in_width is None else (in_width,)
    if x.shape[-1:] != width or not x.is_floating_point():
        raise ArgumentError(
            argument,
            expected=f"features [..., {', '.join(map(str, width))}] in floating point",
            got=describe(x),
            remedy="pass features of the expected width, build the model for the width of your "
            "features, or convert integers with .float()",
        )
    if like is not None:
        check_type(argument, x, like)


def word_graph(x: Tensor) -> Graph:
    """Return the graph with an edge from column f to row n for each stored entry of x."""
    if x not in _GRAPHS:
        node_and_word = x.detach().to_sparse_coo().indices()
        _GRAPHS[x] = Edges(node_and_word.flip(0), x.shape[0], x.shape[1])
    graph: Graph = _GRAPHS[x]
    return graph


class Dropout(nn.Dropout):
    """``torch.nn.Dropout`` that also accepts ``torch.sparse_csr`` features.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.Dropout(0.5)(torch.eye(3).to_sparse_csr()).layout
        torch.sparse_csr
    """

    def forward(self, x: Tensor) -> Tensor:
        check_node_features(x)
        if x.layout is not torch.sparse_csr:
            return super().forward(x)
        if not self.training or self.p == 0:
            return x
        values = F.dropout(x.values(), self.p)
        dropped = torch.sparse_csr_tensor(
            x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False
        )
        _GRAPHS[dropped] = word_graph(x)  # The nonzero entries are at the same indices.
        return dropped
