"""``edge_softmax``: softmax over the edges of each node."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from edgewise._utils.arguments import check_choice, describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention import steps
from edgewise.graphs import Edges, Graph
from edgewise.interop.dgl.graphs import from_dgl

ALL = "__ALL__"  # DGL's value for all edges


def edge_softmax(
    graph: Any, logits: Tensor, eids: Tensor | str = ALL, norm_by: str = "dst"
) -> Tensor:
    r"""Compute DGL's ``edge_softmax``, :math:`a_{ij} = e^{z_{ij}} / \sum_{k \in N(i)} e^{z_{ik}}`.

    Args:
        graph: a graph of Edgewise, or a ``DGLGraph``.
        logits: ``[E, ...]``, in the order of the edges.
        eids: indices ``[K]`` of edges; the others are left out of the sum.
        norm_by: "dst" for sums over the edges to a node, "src" for the edges from a node.

    Returns:
        Weights ``[E, ...]`` (``[K, ...]`` with ``eids``).

    Raises:
        ArgumentError: ``logits`` do not have one row for each edge, or are a dict by edge type.

    Example:
        >>> import torch
        >>> from edgewise import graphs
        >>> from edgewise.interop.dgl import edge_softmax
        >>> edge_softmax(graphs.window(1).bind(2), torch.zeros(4, 1)).flatten()
        tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    check_choice("norm_by", norm_by, ("dst", "src"))
    graph = graph if isinstance(graph, Graph) else from_dgl(graph)
    index, sizes = graph.edge_index, (graph.num_targets, graph.num_sources)
    if isinstance(eids, Tensor):
        index = index[:, eids]
    if not isinstance(logits, Tensor) or logits.shape[:1] != index.shape[1:]:
        raise ArgumentError(
            "logits",
            expected=f"one row per edge, shape [{index.shape[1]}, ...]",
            got=describe(logits),
            remedy="pass the logits of one edge type, in the order of its edges",
        )
    if norm_by == "src":
        index, sizes = index.flip(0), sizes[::-1]
    if isinstance(eids, Tensor) or norm_by == "src":
        graph = Edges(index, *sizes)
    scores = logits.reshape(len(logits), -1)
    return steps.edge_softmax(scores, graph.to(scores.device)).view(logits.shape)
