"""Molecule transformer: atoms read along their bonds, and the molecule reads its atoms.

Formula: h_i' = h_i + Σ_j softmax_j(q_i·(k_j + W e_ij)) (v_j + U e_ij), then a feed-forward network
Graph: the bonds; then the graph of membership, in which each output reads the atoms of its molecule
Score: Dot (scaled), with the bond's vector in key and value
Normalisation: softmax over the bonds; layer norm first
Update: residuals; readout by attention, beside the sum of the atoms; a response to conditions
Paper: Xiong et al., Pushing the boundaries of molecular representation (AttentiveFP), 2020
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from edgewise.graphs import Graph
from edgewise.layers import AttentionPool, EdgeVectorLayer, Pool, Response
from edgewise.ranges import checked


class MoleculeTransformer(nn.Module):
    """``[B, out_width]``; see :func:`molecule_transformer`."""

    def __init__(self, layers: list[nn.Module], head: Response, describe: nn.Module) -> None:
        super().__init__()
        self.embed, *others, self.norm, self.attention, self.sum = layers
        self.layers, self.head, self.describe = nn.ModuleList(others), head, describe

    def forward(self, x: Tensor, graph: Graph, members: Graph, *more: Tensor) -> Tensor:
        bonds, *given = more or (x.new_ones(graph.num_edges, 1),)
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, graph, bonds)
        x = self.norm(x)
        z = [self.attention(x, members), self.sum(x, members) / 16, *map(self.describe, given[1:])]
        out: Tensor = self.head(torch.cat(z, dim=-1), *given[:1])
        return out


@checked(depth=0, condition_width=0, descriptor_width=0)
def molecule_transformer(
    in_width: int,
    out_width: int,
    *,
    edge_width: int = 1,
    condition_width: int = 0,
    descriptor_width: int = 0,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    dropout: float = 0.1,
) -> MoleculeTransformer:
    """Called ``model(x, graph, members, bonds, conditions, descriptors)``, as many as there are."""
    layer = partial(EdgeVectorLayer, width, heads, edge_width, dropout=dropout)
    layers = [nn.Linear(in_width, width), *(layer() for _ in range(depth)), nn.LayerNorm(width)]
    many = descriptor_width > 0  # half of them are left out in training
    head = Response((2 + many) * width, condition_width, out_width, width, dropout)
    layers += [AttentionPool(width, heads), Pool("sum")]
    describe = [nn.Dropout(0.5), nn.Linear(descriptor_width, width), nn.SiLU()] if many else []
    return MoleculeTransformer(layers, head, nn.Sequential(*describe))
