r"""Links from the embeddings of two nodes, with GraphSAGE's mean between them.

Formula: s_uv = f(z_u ⊙ z_v), with Z = L layers of σ(U h_i + V mean_j(h_j)) over learned h⁰
Graph: the input graph without the edges asked about
Score: none; f is the sum (inner product) or a network of two layers
Normalisation: by degree
Update: ReLU between layers
Paper: Hamilton et al., Inductive representation learning on large graphs, 2017
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from edgewise.arguments import checked
from edgewise.graphs import Pattern
from edgewise.layers import FeedForward
from edgewise.models.graphsage import graphsage

Decoder = Literal["dot", "network"]


class LinkPredictor(nn.Module):
    """An embedding a node, an encoder of the graph, and a score for each pair of nodes."""

    def __init__(self, num_nodes: int, width: int, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_nodes, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.encoder = encoder
        self.decoder = FeedForward(width, width) if decoder == "network" else None
        if self.decoder is not None:
            self.decoder[-1] = nn.Linear(width, 1)

    def forward(self, pairs: Tensor, graph: Pattern) -> Tensor:
        """Scores ``[M]`` of pairs ``[2, M]``, the same for (u, v) and (v, u)."""
        return self.score(self.embed(graph), pairs)

    def embed(self, graph: Pattern) -> Tensor:
        """The states ``[N, width]`` of all nodes, from which any pair is scored."""
        z: Tensor = self.encoder(self.embedding.weight, graph)
        return z

    def score(self, z: Tensor, pairs: Tensor) -> Tensor:
        """Scores ``[M]`` of pairs ``[2, M]`` of nodes with states ``[N, width]``."""
        both = z.index_select(0, pairs[0]) * z.index_select(0, pairs[1])
        out: Tensor = both.sum(-1) if self.decoder is None else self.decoder(both).squeeze(-1)
        return out


@checked()
def link_predictor(
    num_nodes: int,
    *,
    width: int = 64,
    depth: int = 2,
    decoder: Decoder = "network",
    dropout: float = 0.0,
) -> LinkPredictor:
    """Build a link predictor with a learned embedding per node.

    Called as ``model(pairs [2, M], graph)``.

    Args:
        num_nodes: number of nodes.
        width: embedding size and hidden size.
        depth: number of GraphSAGE layers.
        decoder: score of a pair: "dot" (inner product) or "network" (a two-layer network).
        dropout: dropout probability between the layers.
    """
    encoder = graphsage(width, width, hidden=width, depth=depth, dropout=dropout)
    return LinkPredictor(num_nodes, width, encoder, decoder)
