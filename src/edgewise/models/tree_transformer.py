"""Tree Transformer: attention between all words, biased by their relation in the tree.

Formula: s_ij = q_i·k_j / √D + b[up, down] + r[label]; up, down: number of steps from i up to the
    lowest common ancestor, and from there down to j; r is 0 unless i and j are parent and child
Graph: the complete graph of each tree
Score: ``Dot`` (scaled dot product)
Encoding: bias by the relation of two nodes (the paper adds codes of the path from the root)
Normalisation: softmax; layer norm before each sublayer
Update: residual connections around attention and around the feed-forward network
Paper: after Shiv and Quirk, Novel positional encodings to enable tree-based transformers, 2019
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise.attention.biases import EdgeTerm, TableBias
from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.members import (
    member_graphs,
    member_sizes,
    members_by_size,
    pair_index,
    pair_of_edge,
)
from edgewise.graphs import Graph, Pattern
from edgewise.graphs.graph import fact_of_graph
from edgewise.layers import (
    GraphLayer,
    Linear,
    Membership,
    TransformerLayer,
    check_edge_attr,
    packed_graph,
)
from edgewise.models.arguments import model_factory
from edgewise.models.tree_lstm import check_parents, no_forest

NONE = -1


@fact_of_graph
def tree_relations(graph: Graph) -> Tensor:
    """Return for each pair i, j the steps up from i to the lowest common ancestor and down to j,
    ``[P, 2]``, in the order of ``graphs.complete()``; (-1, -1) between trees.
    """
    check_parents(graph)
    relations = torch.full((int(member_sizes(graph).square().sum()), 2), NONE, device=graph.device)
    for members in members_by_size(graph):
        far = 2 * members.nodes.shape[1]
        up = _steps_up(members.adjacency, far)
        relation = torch.full((*up.shape, 2), NONE, device=graph.device)
        nearest = torch.full_like(up, far)
        for ancestor in range(up.shape[1]):
            steps = up[:, :, ancestor]
            through = steps[:, :, None] + steps[:, None]
            closer = through < nearest
            nearest = torch.where(closer, through, nearest)
            pair = torch.stack(
                [steps[:, :, None].expand_as(up), steps[:, None].expand_as(up)], dim=-1
            )
            relation = torch.where(closer[..., None], pair, relation)
        relations[pair_index(graph, members)] = relation.flatten(1, 2)
    return relations


def _steps_up(adjacency: Tensor, far: int) -> Tensor:
    """Return the steps from node i up to ancestor a, ``[B, n, n]``; ``far`` for other nodes a."""
    n = adjacency.shape[1]
    at = torch.eye(n, dtype=adjacency.dtype, device=adjacency.device).expand_as(adjacency)
    up = torch.full(adjacency.shape, far, device=adjacency.device)
    for step in range(max(n, 1)):
        up = torch.where((at > 0) & (up == far), step, up)
        at = at @ adjacency.mT  # Rows are parents, columns are children.
        if not bool((at > 0).any()):
            return up
    raise no_forest("a cycle")


class TreeRelation(GraphEncoding):
    """Learned attention bias :math:`T[up_{ij}, down_{ij}]` by steps up and down between nodes."""

    of_pairs = True

    def __init__(self, heads: int, max_distance: int = 4) -> None:
        super().__init__()
        check_range("max_distance", max_distance, "choose for example 4", least=1)
        self.max_distance = max_distance
        self.settings = (max_distance,)
        self.table = nn.Parameter(torch.empty((max_distance + 1) ** 2 + 1, heads))
        nn.init.normal_(self.table, std=0.02)

    def code(self, graph: Graph) -> Tensor:
        """Return the class of each pair of nodes, ``[P]``; compute it once per data set."""
        steps = tree_relations(graph)
        up, down = steps.clamp(max=self.max_distance).unbind(1)
        return torch.where(
            up == NONE, (self.max_distance + 1) ** 2, up * (self.max_distance + 1) + down
        )

    def forward(self, code: Tensor) -> TableBias:
        """Return the attention bias of all pairs, given their classes ``[P]`` from :meth:`code`."""
        return TableBias(code, self.table)


class TreeTransformer(GraphLayer):
    """Tree Transformer for node-level outputs.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. The edges of
    ``graph`` run from children to parents.

    Args:
        edge_width: number of features per edge, such as the number of dependency labels for one-hot
            labels (0 = none).
        max_distance: number at which the steps up and the steps down are clipped.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> tree = graphs.tree([-1, 0, 0, 1], reads="children").bind(4)
        >>> model = models.tree_transformer(16, 3)
        >>> model(torch.randn(4, 16), tree, batch=[4]).shape
        torch.Size([4, 3])
    """

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        width: int = 64,
        depth: int = 3,
        heads: int = 4,
        max_distance: int = 4,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.edge_width = edge_width
        self.embed, self.dropout = Linear(in_width, width), nn.Dropout(dropout)
        self.relation = TreeRelation(heads, max_distance)
        self.labels = nn.Linear(edge_width, 2 * heads, bias=False) if edge_width else None
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, 2 * width, act="gelu", order="pre", dropout=dropout)
            for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, out_width)

    def encodings(self) -> dict[str, nn.Module]:
        return {"relations": self.relation}

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        relations: Tensor | None = None,
    ) -> Tensor:
        """Return outputs ``[N, out_width]``; ``relations`` is ``model.relation.code(graph)``."""
        graph = packed_graph(x, graph, batch)
        nodes = self.embed(self.dropout(x))
        check_edge_attr(edge_attr, graph, self.edge_width, like=x)
        pairs = member_graphs(graph)
        code = self.relation.code(graph) if relations is None else relations
        check_code(code, pairs.num_edges, argument="relations")
        bias: EdgeTerm = self.relation(code)
        if self.labels is not None and edge_attr is not None:
            bias = self.relation(code).expand() + self.of_labels(graph, edge_attr, len(code))
        for layer in self.layers:
            nodes = layer(nodes, pairs, bias=bias)
        out: Tensor = self.head(self.norm(nodes))
        return out

    def of_labels(self, graph: Graph, edge_attr: Tensor, pairs: int) -> Tensor:
        """Return the attention bias of edge labels, ``[P, H]``; 0 for pairs that are not an edge.

        Each edge has one value for the parent that attends to the child, and one for the reverse.
        """
        assert self.labels is not None
        down, up = self.labels(edge_attr).chunk(2, dim=-1)
        bias: Tensor = down.new_zeros(pairs, down.shape[-1])
        bias = bias.index_add(0, pair_of_edge(graph), down)
        return bias.index_add(0, pair_of_edge(graph.transpose()), up)


tree_transformer = model_factory(TreeTransformer, depth=0, edge_width=0)
