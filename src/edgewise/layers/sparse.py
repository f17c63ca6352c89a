"""Sparse features (``torch.sparse_csr``): a linear map that reads them as a graph, and dropout."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from edgewise.arguments import check_type, described
from edgewise.attention import aggregate
from edgewise.errors import ArgumentError
from edgewise.graphs import Edges, Graph
from edgewise.ragged import run_of_each

_GRAPHS = WeakTensorKeyDictionary()


class Linear(nn.Linear):
    r"""``torch.nn.Linear``, also for features in ``torch.sparse_csr`` form.

    Node i reads the words j that it has, :math:`y_i = \sum_j x_{ij} W_j + b`: a weighted sum over
    a bipartite graph. Its transpose, which the gradient of W needs, is sorted once and not in every
    step, as ``torch.sparse`` does. As it is the first map of many models, it refuses features of
    another width by their name, ``x``.
    """

    def forward(self, x: Tensor) -> Tensor:
        """``[..., out_features]`` from ``[..., in_features]``; sparse features are ``[N, ...]``.

        Raises:
            ArgumentError: features of another width or type than the weight's, or no floats.
        """
        check_node_features(x, self.weight)
        if x.layout is not torch.sparse_csr:
            return super().forward(x)
        words = self.weight.t().unsqueeze(-2)
        y = aggregate(words, word_graph(x), weight=x.values()).squeeze(-2)
        return y if self.bias is None else y + self.bias


def check_node_features(x: Tensor, weight: Tensor | None = None, argument: str = "x") -> None:
    """Refuse features that are no floats, or that a weight ``[..., width]`` cannot read.

    Of graphs, too, by the ``argument`` that they came by.
    """
    width = x.shape[-1:] if weight is None else weight.shape[-1:]
    if x.shape[-1:] != width or not x.is_floating_point():
        raise ArgumentError(
            argument,
            expected=f"features [..., {', '.join(map(str, width))}] in floating point",
            got=described(x),
            remedy="make the model for this width, or call .float() on whole numbers",
        )
    if weight is not None:
        check_type(argument, x, weight)


def word_graph(x: Tensor) -> Graph:
    """Who has which word: the stored places of a ``torch.sparse_csr`` matrix ``[N, F]``."""
    if x not in _GRAPHS:
        target = run_of_each(x.crow_indices().diff(), x.col_indices().numel())
        _GRAPHS[x] = Edges(torch.stack([x.col_indices(), target]), x.shape[0], x.shape[1])
    graph: Graph = _GRAPHS[x]
    return graph


def with_values(x: Tensor, values: Tensor) -> Tensor:
    """The ``torch.sparse_csr`` matrix with other numbers in the same places: the same graph."""
    places = x.crow_indices(), x.col_indices()
    other = torch.sparse_csr_tensor(*places, values, x.shape, check_invariants=False)
    _GRAPHS[other] = word_graph(x)
    return other


class Dropout(nn.Dropout):
    """``torch.nn.Dropout``, also for features in ``torch.sparse_csr`` form.

    Dropping a zero changes nothing, so that only the stored numbers have to be drawn for: a bag of
    words that is 99 % zeros costs a hundredth.
    """

    def forward(self, x: Tensor) -> Tensor:
        check_node_features(x)
        if x.layout is not torch.sparse_csr:
            return super().forward(x)
        if not self.training or self.p == 0:
            return x
        return with_values(x, F.dropout(x.values(), self.p))
