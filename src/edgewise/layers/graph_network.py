"""The block of graph networks: edges, nodes and whole graphs update each other, in that order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.attention import Reduce, aggregate
from edgewise.graphs import Graph, edges, incidence

State = tuple[Tensor, Tensor, Tensor]
"""Nodes ``[..., N, F]``, edges ``[..., E, F]``, and what is true of each graph, ``[..., G, F]``."""


class GraphNetworkBlock(nn.Module):
    r"""One round of updates (Battaglia et al., 2018, algorithm 1), all features equally wide.

    .. math::
        e_{ij}' = \phi_e(e_{ij}, v_i, v_j, u), \quad
        v_i' = \phi_v(\textstyle\bigoplus_j e_{ij}', v_i, u), \quad
        u' = \phi_u(\bigoplus_{ij} e_{ij}', \bigoplus_i v_i', u)

    Args:
        width: F.
        reduce: ⊕, ``"sum"``, ``"mean"``, ``"max"`` or ``"min"``.
    """

    def __init__(self, width: int, *, reduce: Reduce = "sum") -> None:
        super().__init__()
        self.reduce: Reduce = reduce
        self.edge, self.node, self.whole = (
            nn.Sequential(nn.Linear(parts * width, width), nn.ReLU(), nn.Linear(width, width))
            for parts in (4, 3, 3)
        )

    def forward(self, state: State, graph: Graph, members: Graph) -> State:
        """The next state; in ``members`` each graph of the batch reads the nodes that it has."""
        x, edge, whole = state
        owner = members.target  # the graph of each node
        owner_of_edge = owner[graph.target]
        number = torch.arange(graph.num_edges, device=x.device)
        links = edges(torch.stack([number, owner_of_edge]), (len(number), members.num_targets))

        ends = graph.gather_target(x), graph.gather_source(x)
        edge = self.edge(torch.cat([edge, *ends, whole[..., owner_of_edge, :]], dim=-1))
        read = self._read(edge, incidence(graph))
        x = self.node(torch.cat([read, x, whole[..., owner, :]], dim=-1))
        read = torch.cat([self._read(edge, links), self._read(x, members)], dim=-1)
        return x, edge, self.whole(torch.cat([read, whole], dim=-1))

    def _read(self, x: Tensor, graph: Graph) -> Tensor:
        return aggregate(x.unsqueeze(-2), graph, reduce=self.reduce).squeeze(-2)
