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


class MoleculeTransformer(nn.Module):
    """``[B, out_width]`` from atoms, bonds and conditions; see :func:`molecule_transformer`."""

    def __init__(self, layers: list[nn.Module], readout: AttentionPool, head: Response) -> None:
        super().__init__()
        self.embed, *others, self.norm = layers
        self.layers, self.head = nn.ModuleList(others), head
        self.attention, self.sum = readout, Pool("sum")

    def forward(self, x: Tensor, graph: Graph, members: Graph, *more: Tensor) -> Tensor:
        bonds, *conditions = more or (x.new_ones(graph.num_edges, 1),)
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, graph, bonds)
        x = self.norm(x)
        z = torch.cat([self.attention(x, members), self.sum(x, members) / 16], dim=-1)  # typically
        out: Tensor = self.head(z, *conditions)
        return out


def molecule_transformer(
    in_width: int,
    out_width: int,
    *,
    edge_width: int = 1,
    condition_width: int = 0,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
    dropout: float = 0.1,
) -> MoleculeTransformer:
    """Called ``model(x, graph, members)``, with ``bonds, conditions`` after that if it has them."""
    layer = partial(EdgeVectorLayer, width, heads, edge_width, dropout=dropout)
    layers = [nn.Linear(in_width, width), *(layer() for _ in range(depth)), nn.LayerNorm(width)]
    head = Response(2 * width, condition_width, out_width, width, dropout)
    return MoleculeTransformer(layers, AttentionPool(width, heads), head)
