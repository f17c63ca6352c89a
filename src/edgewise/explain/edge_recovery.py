"""Recovery of a graph that the model did not see, from attention weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from edgewise._utils.errors import ArgumentError, require
from edgewise.explain.record import LayerRecord
from edgewise.graphs import Graph


def edge_recovery(layers: Sequence[LayerRecord], graph: Graph) -> dict[str, float]:
    """Return how well the weights of each head separate edges of a graph from other pairs.

    The value by ``"layer/head"``, and as ``"mean"`` of all heads, is the area under the ROC curve:
    the probability that an edge has a larger weight, in both directions together, than another
    pair. The layers are those of a model on the complete graph, without batch dimensions.

    Raises:
        ArgumentError: no layer has all pairs of the nodes of the graph, or the graph has all pairs
            or none.
        MissingExtraError: scikit-learn is not installed.

    Example:
        >>> import torch
        >>> from edgewise import explain, graphs, layers
        >>> layer, ring = layers.MultiHeadAttention(8, heads=2), graphs.grid(2, 2).bind(4)
        >>> with explain.record(layer) as recorded:
        ...     _ = layer(torch.randn(4, 8), graphs.complete())
        >>> sorted(explain.edge_recovery(recorded.layers, ring))
        ['MultiHeadAttention/0', 'MultiHeadAttention/1', 'mean']
    """
    require("sklearn", extra="train", purpose="the area under the ROC curve")
    from sklearn.metrics import roc_auc_score

    count = graph.num_targets
    low, high = torch.triu_indices(count, count, 1)
    is_edge = graph.dense()
    is_edge = (is_edge | is_edge.T)[low, high]
    if is_edge.all() or not is_edge.any():
        raise ArgumentError(
            "graph",
            expected="pairs of nodes with and without an edge",
            got=f"{int(is_edge.sum())} edges of {len(low)} pairs",
            remedy="pass the graph whose edges the heads could have found",
        )
    areas: dict[str, float] = {}
    total = torch.zeros(len(low))
    for layer in layers:
        is_complete = layer.graph.num_edges == count * count and layer.edges is None
        if not is_complete or layer.graph.num_targets != count:
            continue
        for head, weights in zip(layer.heads, layer.weights.float().unbind(-1), strict=True):
            matrix = torch.zeros(count, count)
            matrix[layer.graph.target, layer.graph.source] = weights
            values = (matrix + matrix.T)[low, high]
            total += values / values.mean()
            areas[f"{layer.name}/{head}"] = float(roc_auc_score(is_edge, values))
    if not areas:
        raise ArgumentError(
            "layers",
            expected=f"a layer with all pairs of {count} nodes",
            got=", ".join(layer.name for layer in layers) or "none",
            remedy="record a model on the complete graph, and raise max_edges=",
        )
    return areas | {"mean": float(roc_auc_score(is_edge, total))}
