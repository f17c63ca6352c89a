"""Attention of layers that may also return or change its weights."""

from __future__ import annotations

from typing import Unpack

import torch.nn.functional as F
from torch import Tensor

from edgewise.attention.attend import AttendOptions, aggregate, attend
from edgewise.attention.steps import attention_weights
from edgewise.graphs import Graph


def attend_and_weigh(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    graph: Graph,
    *,
    return_weights: bool,
    edge_weight: Tensor | None = None,
    **options: Unpack[AttendOptions],
) -> tuple[Tensor, Tensor | None]:
    """Return the output of attention and, if asked, the weights ``[..., E, H]`` after dropout.

    ``edge_weight``, ``[E, 1]`` or ``[E, H]``, multiplies the weights.
    """
    if not return_weights and edge_weight is None:
        return attend(query, key, value, graph, **options), None
    dropout = options.pop("dropout", 0.0)
    weight = F.dropout(attention_weights(query, key, graph, **options), dropout).to(value.dtype)
    if edge_weight is not None:
        weight = weight * edge_weight
    return aggregate(value, graph, weight=weight), weight if return_weights else None
