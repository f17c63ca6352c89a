"""Polynormer: gated attention to neighbours, then gated linear attention to all nodes.

Formula: local: g = ReLU(GAT(h) + L h), h = (1 - β) norm(ReLU(G h) ⊙ g) + β g; global, on the sum of
    all local h: g_i = Σ_j (k_i·k_j) v_j / Σ_j k_i·k_j, with k = σ(K h); h = ReLU(O (norm(g) ⊙
    (G h + β))), with one O for all global layers; β = σ(b) for each feature
Graph: the input graph with self-loops; global layers: all pairs, in linear time
Score: ``Additive``, as in GAT; global: k_i·k_j
Normalisation: softmax over the neighbourhood; global: by the sum of weights; layer norm
Update: products of gates and attention, whose degree in the inputs grows with the depth
Paper: Deng et al., Polynormer: polynomial-expressive graph Transformer in linear time, 2024
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise._utils.ragged import runs_and_positions, segment_index, starts
from edgewise.attention.attend import aggregate
from edgewise.encodings.members import member_sizes
from edgewise.graphs import Graph, Intervals
from edgewise.layers import GraphLayer
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.gat import GATLayer
from edgewise.models.graph_encoder import GraphEncoder
from edgewise.models.performer import append_one, divide_by_last


class LocalLayer(GraphLayer):
    """Local layer of Polynormer: GAT and a linear map, multiplied by a gate."""

    def __init__(self, width: int, heads: int, *, dropout: float) -> None:
        super().__init__()
        self.attention = GATLayer(width, width // heads, heads)
        self.linear, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.mixture = nn.Parameter(torch.zeros(width))  # b in the formula above

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Return features ``[N, width]`` from x of the same shape."""
        gate = self.gate(x).relu()
        out = self.dropout((self.attention(x, graph) + self.linear(x)).relu())
        beta = self.mixture.sigmoid()
        mixed: Tensor = (1 - beta) * self.norm(gate * out) + beta * out
        return mixed


class GlobalLayer(GraphLayer):
    """Global layer of Polynormer: linear attention of all nodes of a graph, with a gate.

    The map O after it belongs to the model. Memory is (N + G · width / heads) · width for N nodes
    in G graphs, however unequal.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.key, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.gate, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.mixture = nn.Parameter(torch.zeros(width))  # b in the formula above

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Return features ``[N, width]`` from x of the same shape."""
        key = self.key(x).sigmoid().unflatten(-1, (self.heads, -1))
        value = self.value(x).unflatten(-1, (self.heads, -1))
        out = self.norm(attend_linearly(key, value, graph).flatten(-2))
        gated: Tensor = out * (self.gate(x) + self.mixture.sigmoid())
        return gated


def attend_linearly(key: Tensor, value: Tensor, graph: Graph) -> Tensor:
    r"""Return :math:`k_i \sum_j k_j v_j^\top / k_i \sum_j k_j`, ``[N, H, D]``, over the nodes j of
    the graph of i in the batch.
    """
    # Matrix products over blocks of D nodes: the products of all nodes would take D times the
    # memory of the nodes, and graphs padded to the largest one even more.
    block_size = key.shape[-1]
    row, graph_of_block, members = graph.derived(_blocks, block_size)
    keys, values = (
        states.new_zeros(len(graph_of_block) * block_size, *states.shape[1:])
        .index_copy(0, row, states)
        .unflatten(0, (len(graph_of_block), block_size))
        for states in (key, append_one(value))
    )
    sums = torch.einsum("bnhm,bnhd->bhmd", keys, values)
    totals = aggregate(sums.flatten(2), members).unflatten(-1, sums.shape[2:])
    out = torch.einsum("bnhm,bhmd->bnhd", keys, totals[graph_of_block])
    return divide_by_last(out.flatten(0, 1)[row])


def _blocks(graph: Graph, size: int) -> tuple[Tensor, Tensor, Graph]:
    """Divide the nodes of each graph into blocks of this size, of which the last is padded.

    Return the row of each node among those of all blocks, ``[N]``, the graph of each block, and the
    bipartite graph from blocks to graphs.
    """
    sizes = member_sizes(graph)
    member, position = runs_and_positions(sizes, graph.num_targets)
    blocks = (sizes + size - 1) // size
    row = (starts(blocks)[member] + position // size) * size + position % size
    graph_of_block = segment_index(blocks)
    return row, graph_of_block, Intervals(starts(blocks), blocks.cumsum(0), len(graph_of_block))


class Polynormer(GraphEncoder):
    """Polynormer, for nodes or whole graphs.

    Called as ``model(x [N, in_width], graph, batch=...)``. As in the authors' code, all global
    layers have one map O, and local and global states have linear heads of their own. Differences
    from it: global attention stays within each graph of a batch, outputs can be pooled, and
    training continues from the last weights of the warm-up, where the authors reload those that
    were best in validation.

    Args:
        depth: number of local layers.
        global_depth: number of global layers.
        local_calls: number of first calls in training mode whose output is that of the local
            layers, as a warm-up. With gradient accumulation, a step has several calls.
        dropout: dropout probability in the local layers.
        input_dropout: dropout probability of the input.
        global_dropout: dropout probability in the global layers.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.polynormer(16, 3, pool="none")
        >>> model(torch.randn(10, 16), graphs.window(1)).shape
        torch.Size([10, 3])
    """

    reads_edge_attr = False
    accepts_leading_dims = False
    calls: Tensor

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        width: int = 64,
        depth: int = 7,
        global_depth: int = 2,
        heads: int = 8,
        local_calls: int = 0,
        pool: Pooling = "mean",
        dropout: float = 0.3,
        input_dropout: float = 0.15,
        global_dropout: float = 0.5,
    ) -> None:
        check_divides("heads", heads, width, "the width", "change heads or width")
        layers = (LocalLayer(width, heads, dropout=dropout) for _ in range(depth))
        super().__init__(
            in_width,
            out_width,
            layers,
            edge_width=0,
            position="none",
            position_size=0,
            width=width,
            pool=pool,
            dropout=input_dropout,
        )
        self.dropout = nn.Dropout(dropout)
        self.global_norm = nn.LayerNorm(width)
        self.global_layers = nn.ModuleList(GlobalLayer(width, heads) for _ in range(global_depth))
        self.output = nn.Linear(width, width)  # O in the formula above
        self.global_dropout = nn.Dropout(global_dropout)
        self.head = nn.Linear(width, out_width)
        self.local_head = nn.Linear(width, out_width) if local_calls else None
        self.local_calls = local_calls
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def transform(self, x: Tensor, graph: Graph, edge_attr: Tensor | None) -> Tensor:  # noqa: ARG002
        x = self.dropout(x)
        total = torch.zeros_like(x)
        for layer in self.layers:
            x = layer(x, graph)
            total = total + x
        if self.training:
            self.calls += 1
        if self.is_local():
            return total
        x = self.global_norm(total)
        for layer in self.global_layers:
            x = self.global_dropout(self.output(layer(x, graph)).relu())
        return x

    def is_local(self) -> bool:
        """Return whether the outputs are those of the local layers."""
        return bool(self.local_calls) and bool(self.calls <= self.local_calls)

    def output_head(self) -> nn.Module:
        if self.local_head is None or not self.is_local():
            return self.head
        return self.local_head


polynormer = model_factory(Polynormer, depth=0, global_depth=0, local_calls=0)
