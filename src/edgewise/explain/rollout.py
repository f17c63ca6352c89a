"""Attention rollout (Abnar and Zuidema, 2020)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, counted
from edgewise.graphs import Graph

MAX_DENSE = 4096


def rollout(layers: Sequence[tuple[str, Graph, Tensor, Tensor]], residual: float = 0.5) -> Tensor:
    r"""Return :math:`\prod_l (r I + (1 - r) \bar{A}_l)` of layers (name, graph, edges, weights)."""
    check_range("residual", residual, "choose for example 0.5", least=0, most=1)
    sizes = [(graph.num_targets, graph.num_sources) for _, graph, _, _ in layers]
    if not layers or len(set(sizes)) > 1 or sizes[0][0] != sizes[0][1]:
        raise ArgumentError(
            "layers",
            expected="at least one layer, and only layers with self-attention over the same nodes",
            got=", ".join(
                f"{name} with {counted(t, 'target')} and {counted(s, 'source')}"
                for (name, *_), (t, s) in zip(layers, sizes, strict=True)
            )
            or "none",
            remedy="choose layers of self-attention over the same nodes, such as all layers of the "
            "encoder",
        )
    for name, graph, edge_index, _ in layers:
        if edge_index.shape[1] < graph.num_edges:
            raise ArgumentError(
                "layers",
                expected="layers recorded with all edges",
                got=f"{name}, with {edge_index.shape[1]:,} of {graph.num_edges:,} edges",
                remedy="record without targets=, and with a larger max_edges=",
            )
    count = sizes[0][0]
    large = count > MAX_DENSE
    if large:  # a batch of one member needs no batch dimensions
        layers = [
            (name, graph, edge_index, x.view(x.shape[-2:]) if x.shape[:-2].numel() == 1 else x)
            for name, graph, edge_index, x in layers
        ]
    if large and any(weights.dim() > 2 for *_, weights in layers):
        raise ArgumentError(
            "layers",
            expected=f"weights without batch dimensions for more than {MAX_DENSE:,} nodes",
            got=f"weights {list(layers[0][3].shape)}",
            remedy="record one member of the batch at a time",
        )
    product: Tensor | None = None
    for _, _, edge_index, weights in layers:
        step = _step(edge_index, weights.float().mean(-1), count, residual, sparse=large)
        if product is None:
            product = step
        else:
            product = torch.sparse.mm(step, product) if large else step @ product
    assert product is not None
    return product


def _step(
    edge_index: Tensor, weights: Tensor, count: int, residual: float, *, sparse: bool
) -> Tensor:
    """Return ``residual * I + (1 - residual) * A``, where A has targets as rows."""
    source, target = edge_index
    total = weights.new_zeros(*weights.shape[:-1], count).index_add(-1, target, weights)
    reached = total > 0
    scaled = weights / total.masked_fill(~reached, 1.0).index_select(-1, target)
    # A target without sources keeps its own features only.
    diagonal = torch.where(reached, residual, 1.0)
    scaled = scaled * (1 - residual)
    node = torch.arange(count, device=source.device)
    if sparse:
        index = torch.stack([torch.cat([target, node]), torch.cat([source, node])])
        values = torch.cat([scaled, diagonal])
        size = count, count
        joined = torch.sparse_coo_tensor(index, values, size, check_invariants=False)
        return joined.coalesce()
    flat = target * count + source
    matrix = scaled.new_zeros(*scaled.shape[:-1], count * count).index_add(-1, flat, scaled)
    step: Tensor = matrix.unflatten(-1, (count, count)) + torch.diag_embed(diagonal)
    return step
