"""``GPSConv``: message passing and global attention in parallel, without padding."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import nn

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import attend
from edgewise.graphs import Pattern, complete
from edgewise.graphs import batch as batch_of
from edgewise.interop.pyg.adjacency import cached_for


class GPSConv(nn.GPSConv):  # type: ignore[misc]
    r"""PyG's ``GPSConv`` with attention over packed graphs (Rampášek et al., 2022).

    PyG pads all graphs to the size of the largest. ``conv`` may be a layer of PyG or a drop-in.
    PyG's code computes traced and exported calls, ``attn_type="performer"``, and attention with
    hooks or with options that add keys or change their width.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import GINConv, GPSConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> layer = GPSConv(16, GINConv(torch.nn.Linear(16, 16)), heads=4)
        >>> layer(torch.randn(3, 16), edge_index, batch=torch.tensor([0, 0, 1])).shape
        torch.Size([3, 16])
    """

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor | None = None, **kwargs: Any
    ) -> Tensor:
        """Return ``[N, channels]``; ``batch`` is the graph of each node, in ascending order.

        ``kwargs`` are passed to ``conv``.
        """
        if not self._is_packable:
            out: Tensor = super().forward(x, edge_index, batch, **kwargs)
            return out
        attention = self._normed(self.norm2, x + self._dropped(self._attention(x, batch)), batch)
        if self.conv is not None:
            local = self._dropped(self.conv(x, edge_index, **kwargs))
            attention = self._normed(self.norm1, local + x, batch) + attention
        return self._normed(self.norm3, attention + self.mlp(attention), batch)

    @property
    def _is_packable(self) -> bool:
        attn = self.attn
        is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        return (
            type(attn) is torch.nn.MultiheadAttention
            and attn.in_proj_weight is not None
            and attn.bias_k is None
            and not attn.add_zero_attn
            and not (attn._forward_hooks or attn._forward_pre_hooks)
            and not (is_traced or torch.compiler.is_exporting())
        )

    def _attention(self, x: Tensor, batch: Tensor | None) -> Tensor:
        attn = self.attn
        joined = F.linear(x, attn.in_proj_weight, attn.in_proj_bias)
        query, key, value = joined.unflatten(-1, (3, attn.num_heads, -1)).unbind(1)
        dropout = attn.dropout if attn.training else 0.0
        out = attend(query, key, value, _graph_of(x, batch), dropout=dropout)
        projected: Tensor = attn.out_proj(out.flatten(1))
        return projected

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)

    def _normed(self, norm: torch.nn.Module | None, x: Tensor, batch: Tensor | None) -> Tensor:
        if norm is None:
            return x
        out: Tensor = norm(x, batch=batch) if self.norm_with_batch else norm(x)
        return out


def _graph_of(x: Tensor, batch: Tensor | None) -> Pattern:
    """Return the graph in which each node attends to all nodes of its graph."""
    if batch is None:
        return complete()
    if batch.shape != x.shape[:1] or batch.is_floating_point():
        raise ArgumentError(
            "batch",
            expected=f"the graph of each node, integers of shape [{len(x)}]",
            got=describe(batch),
            remedy="pass data.batch",
        )

    def make() -> Pattern:
        if (batch[1:] < batch[:-1]).any():
            raise ArgumentError(
                "batch",
                expected="graphs in ascending order",
                got="a graph whose nodes are not consecutive",
                remedy="sort the nodes by graph, as torch_geometric.data.Batch does",
            )
        return batch_of(complete(), batch.bincount())

    return cached_for(batch, "complete graphs", make)
