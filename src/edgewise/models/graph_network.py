"""Graph network: each layer updates the features of edges, then of nodes, then of whole graphs.

Formula: e' = φ_e(e, v_i, v_j, u); v' = φ_v(⊕ e', v, u); u' = φ_u(⊕ e', ⊕ v', u)
Graph: the input graph; edges from nodes and edges to their graph
Score: none
Normalisation: ⊕ is the sum, maximum or minimum (none), or the mean (by the number of terms)
Update: two-layer networks φ; linear maps before the first update and after the last
Paper: Battaglia et al., Relational inductive biases, deep learning, and graph networks, 2018
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_choice
from edgewise._utils.errors import ArgumentError
from edgewise.attention.attend import Reduce, aggregate
from edgewise.graphs import Graph, Pattern, edges, incidence
from edgewise.graphs.graph import bind_to_nodes, fact_of_graph
from edgewise.layers import GraphLayer, Linear, Membership, given_or_ones, members_of
from edgewise.layers.sparse import check_node_features
from edgewise.models.arguments import model_factory

Focus = Literal["nodes", "edges", "graphs"]


class GraphState(NamedTuple):
    """Features of nodes, edges and graphs: ``[..., N, width]``, with E and G instead of N."""

    nodes: Tensor
    edges: Tensor
    graphs: Tensor


class GraphNetworkBlock(nn.Module):
    r"""Update of edges, then nodes, then graphs (Battaglia et al., 2018, algorithm 1).

    .. math::
        e_{ij}' = \phi_e(e_{ij}, v_i, v_j, u), \quad
        v_i' = \phi_v(\textstyle\bigoplus_j e_{ij}', v_i, u), \quad
        u' = \phi_u(\bigoplus_{ij} e_{ij}', \bigoplus_i v_i', u)
    """

    def __init__(self, width: int, *, reduce: Reduce = "sum") -> None:
        super().__init__()
        self.reduce: Reduce = reduce
        self.edge = _network(4 * width, width)
        self.node = _network(3 * width, width)
        self.graph = _network(3 * width, width)

    def forward(self, state: GraphState, graph: Graph, members: Graph) -> GraphState:
        """Return the updated features of nodes, edges and graphs."""
        x, edge_attr, u = state
        owner = members.derived(_owners)
        owner_of_edge = owner[graph.target]

        ends = graph.gather_target(x), graph.gather_source(x)
        edge_attr = self.edge(torch.cat([edge_attr, *ends, u[..., owner_of_edge, :]], dim=-1))

        incoming = self._reduced(edge_attr, incidence(graph))
        x = self.node(torch.cat([incoming, x, u[..., owner, :]], dim=-1))

        edge_members = _edge_members(graph, members)
        of_edges, of_nodes = self._reduced(edge_attr, edge_members), self._reduced(x, members)
        u = self.graph(torch.cat([of_edges, of_nodes, u], dim=-1))
        return GraphState(x, edge_attr, u)

    def _reduced(self, x: Tensor, graph: Graph) -> Tensor:
        return aggregate(x.unsqueeze(-2), graph, reduce=self.reduce).squeeze(-2)


def _owners(members: Graph) -> Tensor:
    """Return the graph to which each node belongs, ``[N]``."""
    owner = torch.zeros_like(members.source)
    owner[members.source] = members.target
    return owner


@fact_of_graph
def _edge_members(graph: Graph, members: Graph) -> Graph:
    """Return the bipartite graph from each edge to the graph to which it belongs."""
    number = torch.arange(graph.num_edges, device=graph.device)
    owner = members.derived(_owners)[graph.target]
    return edges(torch.stack([number, owner]), (graph.num_edges, members.num_targets))


def _is_ambiguous(members: Graph) -> bool:
    """Return whether a node is in no graph, or in several graphs."""
    return bool((members.out_degree() != 1).any())


def _network(in_width: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(in_width, width), nn.ReLU(), nn.Linear(width, width))


class GraphNetwork(GraphLayer):
    """Graph network: ``depth`` blocks that update features of nodes, edges and graphs.

    Called as ``model(x, graph, edge_attr=..., batch=..., global_attr=...)``.

    Args:
        out_width: number of outputs per graph, node or edge, depending on ``focus``.
        global_width: number of features per graph (0 = none).
        width: hidden size of nodes, edges and graphs.
        depth: number of blocks.
        focus: level of the outputs: "graphs", "nodes" or "edges".

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.graph_network(16, 3)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 3])
    """

    reads_edge_attr = True
    shares_nodes = False

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        global_width: int = 0,
        width: int = 64,
        depth: int = 2,
        reduce: Reduce = "sum",
        focus: Focus = "graphs",
    ) -> None:
        super().__init__()
        check_choice("focus", focus, get_args(Focus))
        self.focus: Focus = focus
        self.edge_width, self.global_width = edge_width or 1, global_width or 1
        self.encode_nodes = Linear(in_width, width)
        self.encode_edges = nn.Linear(self.edge_width, width)
        self.encode_graphs = nn.Linear(self.global_width, width)
        self.blocks = nn.ModuleList(GraphNetworkBlock(width, reduce=reduce) for _ in range(depth))
        self.decode = nn.Linear(width, out_width)

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        global_attr: Tensor | None = None,
    ) -> Tensor:
        """Return outputs ``[..., G, out_width]``, or one row per node or per edge; see ``focus``.

        Features of edges and graphs are ones by default.

        Raises:
            ArgumentError: ``batch`` does not match x, or has a node in several graphs or in none;
                or features of edges or graphs have the wrong shape.
        """
        state = self.states(x, graph, edge_attr=edge_attr, batch=batch, global_attr=global_attr)
        out: Tensor = self.decode(getattr(state, self.focus))
        return out

    def states(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        global_attr: Tensor | None = None,
    ) -> GraphState:
        """Return the states of nodes, edges and graphs after the last block."""
        graph = bind_to_nodes(graph, x)
        members = members_of(x, batch)
        nodes = self.encode_nodes(x)
        edge_attr = given_or_ones(edge_attr, graph, self.edge_width, like=x, batched=True)
        rows = members.num_targets, self.global_width
        if global_attr is None:
            global_attr = torch.ones(rows, dtype=x.dtype, device=x.device)
        if global_attr.shape[-2:] != rows:
            raise ArgumentError(
                "global_attr",
                expected=f"shape {list(rows)}, one row per graph",
                got=f"shape {list(global_attr.shape)}",
                remedy="build the model with global_width=global_attr.shape[-1], or pass one row "
                "per graph of the batch",
            )
        check_node_features(global_attr, self.global_width, "global_attr", like=x)
        # A dense x may have leading batch dimensions, all on one graph.
        if x.dim() > 2:
            edge_attr, global_attr = (
                features.expand(*x.shape[:-2], *features.shape[-2:])
                for features in (edge_attr, global_attr)
            )
        # Sizes put each node into one graph; a membership graph of the caller need not do so.
        if isinstance(batch, Graph) and members.is_numbered and members.derived(_is_ambiguous):
            raise ArgumentError(
                "batch",
                expected="each node in exactly one graph, because each graph has a state",
                got="a node in no graph, or in several graphs",
                remedy="give the sizes of the graphs; if a graph occurs several times in the "
                "batch, repeat its nodes, as PackedGraphs with shared=False does",
            )
        state = GraphState(nodes, self.encode_edges(edge_attr), self.encode_graphs(global_attr))
        for block in self.blocks:
            state = block(state, graph, members)
        return state


graph_network = model_factory(GraphNetwork, edge_width=0, global_width=0)
