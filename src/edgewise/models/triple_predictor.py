r"""Prediction of links by relation: R-GCN on learned embeddings, and a bilinear score of a triple.

Formula: s(h, r, t) = Σ_d z_hd w_rd z_td (DistMult) or Re Σ_d z_hd w_rd z̄_td (ComplEx); z = x + f(x)
Graph: the input graph with reversed edges, without the triples to predict
Score: none in R-GCN; that of ``hgt`` with ``encoder="hgt"``
Normalisation: by the number of edges of each relation at a target
Update: ReLU between layers; the embeddings x are added to the output of the encoder f
Paper: Schlichtkrull et al., Modeling relational data with graph convolutional networks, 2018

A triple is a head h, a relation r and a tail t. The question (?, r, t) is asked as (t, r', ?),
where r' is the reversed relation with a vector of its own (Lacroix et al., Canonical tensor
decomposition for knowledge base completion, 2018). Without layers, the model is DistMult (Yang et
al., 2015) or ComplEx (Trouillon et al., 2016).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice, check_even
from edgewise._utils.errors import ArgumentError, counted
from edgewise._utils.torch_internals import has_values
from edgewise.graphs import Graph, Pattern, TypedGraph
from edgewise.layers import Dropout
from edgewise.layers.projections import table_of
from edgewise.models.arguments import model_factory
from edgewise.models.hgt import hgt
from edgewise.models.rgcn import rgcn

Decoder = Literal["distmult", "complex"]
Encoder = Literal["rgcn", "hgt"]


class TriplePredictor(nn.Module):
    """Predictor of links by relation, which scores all entities as answers to a question.

    Called as ``model(questions [2, B], entities [M], graph)``. A question is a node and a relation
    of ``graph``. Call ``graph.with_reverse()`` first, so that the reversed relations can be asked.

    Args:
        num_nodes: number of nodes.
        relations: number of relations of the graph; with 1, any graph will do.
        width: embedding size and hidden size.
        depth: number of layers of the encoder; 0 scores the embeddings without the graph.
        encoder: model of typed graphs, "rgcn" or "hgt".
        decoder: score of a triple, "distmult" (the same for both directions of a relation) or
            "complex" (the halves of a vector are its real and imaginary parts).
        bases: number of basis matrices of R-GCN (0 = one matrix for each relation).
        dropout: dropout probability of the head's state, and between the layers.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> likes = {("person", "likes", "person"): torch.tensor([[0, 1], [1, 2]])}
        >>> graph = graphs.typed(likes, {"person": 4}).with_reverse()
        >>> model = models.triple_predictor(4, relations=2)
        >>> model(torch.tensor([[0, 3], [0, 1]]), torch.arange(4), graph).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        num_nodes: int,
        *,
        relations: int = 1,
        width: int = 64,
        depth: int = 1,
        encoder: Encoder = "rgcn",
        decoder: Decoder = "distmult",
        bases: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("decoder", decoder, ("distmult", "complex"))
        check_choice("encoder", encoder, ("rgcn", "hgt"))
        if decoder == "complex":
            check_even("width", width, "its halves are the real and imaginary parts")
        self.num_nodes, self.depth, self.decoder = num_nodes, depth, decoder
        self.embedding = nn.Embedding(num_nodes, width)
        self.relation = nn.Parameter(torch.empty(relations, width))
        for table in (self.embedding.weight, self.relation):
            nn.init.normal_(table, std=0.1)
        self.encoder: nn.Module | None = None
        if depth and encoder == "rgcn":
            self.encoder = rgcn(
                width,
                width,
                relations=relations,
                width=width,
                depth=depth,
                bases=bases,
                dropout=dropout,
            )
        elif depth:
            self.encoder = hgt(
                width, width, relations=relations, width=width, depth=depth, dropout=dropout
            )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        questions: Tensor,
        entities: Tensor,
        graph: Pattern,
        *,
        positives: Tensor | None = None,
        states: Tensor | None = None,
    ) -> Tensor:
        """Return scores ``[B, M]`` of M entities as answers to B questions ``[2, B]``.

        With ``positives`` ``[B]``, the right answers, the scores are ``[B, 1 + M]``: those of the
        right answers come first, and are -∞ among the others. ``states`` ``[N, width]`` are the
        results of ``embed(graph)``, if there are several calls with the same graph and weights.
        """
        self._check(questions, graph)
        z, place = self._states_of(graph, states, questions[0], entities, positives)
        question = self.ask(z, torch.stack([place(questions[0]), questions[1]]))
        scores = question @ z.index_select(0, place(entities)).t()
        if positives is None:
            return scores
        first = (question * z.index_select(0, place(positives))).sum(-1, keepdim=True)
        scores = scores.masked_fill(entities == positives[:, None], -torch.inf)
        return torch.cat([first.to(scores.dtype), scores], dim=1)

    def _check(self, questions: Tensor, graph: Pattern) -> None:
        if isinstance(graph, Graph) and graph.num_targets != self.num_nodes:
            raise ArgumentError(
                "graph",
                expected=counted(self.num_nodes, "node"),
                got=counted(graph.num_targets, "node"),
                remedy="build the model with the number of nodes of the graph",
            )
        if not has_values(questions) or not questions.numel():
            return
        smallest, largest = torch.stack(questions.aminmax(dim=1)).tolist()  # One wait for a GPU.
        limits = {"nodes": self.num_nodes, "relations": len(self.relation)}
        for (name, limit), least, most in zip(limits.items(), smallest, largest, strict=True):
            if least < 0 or most >= limit:
                raise ArgumentError(
                    "questions",
                    expected=f"{name} from 0 to {limit - 1}",
                    got=f"{least} to {most}",
                    remedy=f"build the model with more {name}",
                )

    def _states_of(
        self, graph: Pattern, states: Tensor | None, *nodes: Tensor | None
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return states of at least ``nodes``, and a function from nodes to their rows."""
        if states is not None:
            return states, lambda nodes: nodes
        if self.encoder is None or not isinstance(graph, TypedGraph):
            return self.embed(graph), lambda nodes: nodes
        asked = torch.cat([part for part in nodes if part is not None]).unique()
        if len(asked) == self.num_nodes:
            return self.embed(graph), lambda nodes: nodes
        near, graph = neighbourhood(graph, asked, self.depth)
        return self.embed(graph, near), partial(torch.searchsorted, near)

    def embed(self, graph: Pattern, nodes: Tensor | None = None) -> Tensor:
        """Return the states ``[N, width]`` of all nodes, or of ``nodes`` ``[N]`` with a graph of
        these.
        """
        x = table_of(self.embedding, self.num_nodes)
        x = x if nodes is None else x.index_select(0, nodes)
        if self.encoder is None:
            return x
        out: Tensor = x + self.encoder(x, graph)
        return out

    def ask(self, z: Tensor, questions: Tensor) -> Tensor:
        """Return vectors ``[B, width]`` of questions ``[2, B]``, whose inner product with the state
        of an entity is its score, from the states of all nodes ``[N, width]``.
        """
        node, relation = questions
        head = self.dropout(z.index_select(0, node))
        weight = self.relation.index_select(0, relation)
        if self.decoder == "distmult":
            vector: Tensor = head * weight
            return vector
        (a, b), (c, d) = head.chunk(2, -1), weight.chunk(2, -1)
        return torch.cat([a * c - b * d, a * d + b * c], dim=-1)


triple_predictor = model_factory(TriplePredictor, depth=0, bases=0)


def neighbourhood(graph: TypedGraph, ends: Tensor, hops: int) -> tuple[Tensor, TypedGraph]:
    """Return the sorted nodes that reach ``ends`` in some steps, and the graph of the edges on
    these paths, whose nodes are numbered in this order.
    """
    is_reached = ends.new_zeros(graph.num_targets, dtype=torch.bool).index_fill_(0, ends, True)
    is_used = ends.new_zeros(graph.num_edges, dtype=torch.bool)
    for _ in range(hops):
        is_used = is_reached[graph.target]
        is_reached[graph.source[is_used]] = True
    nodes, edges = is_reached.nonzero()[:, 0], is_used.nonzero()[:, 0]
    index = torch.searchsorted(nodes, graph.edge_index[:, edges])
    return nodes, graph.renumbered(index, edges, nodes)
