r"""Link prediction from node embeddings encoded by GraphSAGE.

Formula: s_uv = f(z_u ⊙ z_v) + g(c_uv); z = GraphSAGE(learned embeddings); c_uv = log(1 + a overlap)
Graph: the input graph without the edges to predict
Score: none in the encoder; f is the sum (inner product) or a network of two layers
Normalisation: by degree
Update: ReLU between layers
Paper: Hamilton et al., Inductive representation learning on large graphs, 2017

The overlap of a pair u, v is its number of common neighbours, its Adamic–Adar and resource
allocation indices, and the degrees of u and v. The factor a is 1 for degrees and 10 for the other
features. g is a network, used with ``overlap=True``.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise.encodings import common_neighbours
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import bind_graph
from edgewise.layers import FeedForward, NodeBatchNorm
from edgewise.layers.projections import table_of
from edgewise.models.arguments import model_factory
from edgewise.models.graphsage import graphsage

Decoder = Literal["dot", "network"]
INDICES = 5
SCALE = 10.0  # Resource allocation is far below 1, where log(1 + x) would be linear.


class LinkPredictor(nn.Module):
    """Link predictor: GraphSAGE on learned node embeddings, then a score for each pair of nodes.

    Called as ``model(pairs [2, M], graph)``, or ``model(pairs, sample, nodes=..., around=...)``.

    Args:
        num_nodes: number of nodes.
        width: embedding size and hidden size.
        depth: number of GraphSAGE layers.
        decoder: how the embeddings of a pair are scored: "dot" (inner product) or "network" (a
            two-layer network).
        dropout: dropout probability between the layers.
        overlap: add to the score a network of five features of the pair: the number of common
            neighbours (which message passing on single nodes cannot count; Zhang et al., Labeling
            trick, 2021), the Adamic–Adar and resource allocation indices, and both degrees.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.link_predictor(10)
        >>> model(torch.tensor([[0, 1], [5, 7]]), graphs.window(1)).shape
        torch.Size([2])
    """

    def __init__(
        self,
        num_nodes: int,
        *,
        width: int = 64,
        depth: int = 2,
        decoder: Decoder = "network",
        dropout: float = 0.0,
        overlap: bool = False,
    ) -> None:
        super().__init__()
        check_choice("decoder", decoder, get_args(Decoder))
        encoder = graphsage(width, width, width=width, depth=depth, dropout=dropout)
        self.num_nodes, self.embedding = num_nodes, nn.Embedding(num_nodes, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.encoder = encoder
        self.decoder = FeedForward(width, width) if decoder == "network" else None
        if self.decoder is not None:
            self.decoder[-1] = nn.Linear(width, 1)
        self.overlap = (
            nn.Sequential(
                NodeBatchNorm(INDICES), nn.Linear(INDICES, width), nn.ReLU(), nn.Linear(width, 1)
            )
            if overlap
            else None
        )

    def forward(
        self,
        pairs: Tensor,
        graph: Pattern,
        *,
        nodes: Tensor | None = None,
        around: Graph | None = None,
    ) -> Tensor:
        """Return scores ``[M]`` of M pairs of nodes ``[2, M]``, in any order of the two nodes.

        ``graph`` may be a sample: ``nodes`` are then the nodes of the whole graph that it has, and
        ``around`` has all edges into the nodes of the pairs, which come first in both graphs.
        """
        z = self.embed(graph, nodes)
        return self.score(z, pairs, graph) if around is None else self._score(z, pairs, around)

    def embed(self, graph: Pattern, nodes: Tensor | None = None) -> Tensor:
        """Return the states ``[N, width]`` of all nodes, or of the nodes of a sample."""
        z: Tensor = self.encoder(table_of(self.embedding, self.num_nodes, nodes), graph)
        return z

    def score(self, z: Tensor, pairs: Tensor, graph: Pattern) -> Tensor:
        """Return scores ``[M]`` of pairs ``[2, M]`` from the states ``[N, width]`` of all nodes."""
        return self._score(z, pairs, bind_graph(graph, len(z), len(z), z.device))

    def _score(self, z: Tensor, pairs: Tensor, graph: Graph) -> Tensor:
        product = z.index_select(0, pairs[0]) * z.index_select(0, pairs[1])
        out: Tensor = product.sum(-1) if self.decoder is None else self.decoder(product).squeeze(-1)
        if self.overlap is None:
            return out
        extra: Tensor = self.overlap(_structure(pairs, graph).to(z.dtype)).squeeze(-1)
        return out + extra


def _structure(pairs: Tensor, graph: Graph) -> Tensor:
    """Return log(1 + a · feature) of the five features of each pair of nodes, ``[M, 5]``."""
    degrees = graph.whole_in_degree()[pairs].sort(0).values.t()
    return torch.cat([SCALE * common_neighbours(pairs, graph), degrees], dim=1).log1p()


link_predictor = model_factory(LinkPredictor)
