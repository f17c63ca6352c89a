"""``FiLMConv``: messages that the target scales and shifts, for each relation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric import nn

from edgewise.graphs.typed import stacked
from edgewise.interop.pyg.attention_drop_in import both
from edgewise.interop.pyg.drop_in import DropIn, or_pyg, projected
from edgewise.interop.pyg.relations import typed_graph_of


class FiLMConv(DropIn, nn.FiLMConv):  # type: ignore[misc]
    r"""PyG's ``FiLMConv``, :math:`\sum_r \bigoplus_j \sigma(\gamma_{r,i} W_r x_j + \beta_{r,i})`.

    The relations are computed in one call, and the node itself is a further relation (Brockschmidt,
    2020). The message of each edge is stored.

    Example:
        >>> import torch
        >>> from edgewise.interop.pyg import FiLMConv
        >>> edge_index = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> FiLMConv(16, 8)(torch.randn(3, 16), edge_index).shape
        torch.Size([3, 8])
    """

    @or_pyg
    def forward(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        edge_index: Tensor,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        """Return ``[N_dst, out_channels]``; ``edge_type`` is needed for several relations."""
        source, target = both(x)
        graph = self._graph(edge_index, (source, target))
        beta, gamma = self.film_skip(target).split(self.out_channels, dim=-1)
        out = self._activated(gamma * projected(self.lin_skip, target) + beta)
        by_type = graph
        if self.num_relations > 1:
            typed = typed_graph_of(edge_index, edge_type, graph, self.num_relations)
            by_type = typed.derived(stacked)
        table = torch.cat([projected(linear, source) for linear in self.lins])
        films = by_type.gather_target(torch.cat([film(target) for film in self.films]))
        beta, gamma = films.split(self.out_channels, dim=-1)
        messages = torch.addcmul(beta, gamma, by_type.gather_source(table))
        sums = self._reduced_messages(self._activated(messages), by_type)
        return out + sums.view(self.num_relations, -1, self.out_channels).sum(0)

    def _activated(self, x: Tensor) -> Tensor:
        return x if self.act is None else self.act(x)
