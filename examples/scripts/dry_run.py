"""Thirty architectures of graph neural networks and Transformers, each in a few lines.

Each function computes the core of one layer with ``attend`` or ``aggregate``. Weights are random,
and projections are left out where they are not the point. ``docs/reference/architectures.md`` shows
the same in a table, and ``tests/test_docs.py`` runs all functions. The complete models are in
``edgewise.models``.

    python examples/scripts/dry_run.py
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

import edgewise as ew
from edgewise import graphs

N, H, D = 12, 4, 8  # Number of nodes, number of heads, width of a head.
F = H * D


def features(nodes: int = N, heads: int = H, width: int = D) -> Tensor:
    return torch.randn(nodes, heads, width, requires_grad=True)


def molecule() -> ew.Graph:
    """Return a graph: a ring with a tail, which has a self-loop and a duplicate edge."""
    ring = torch.tensor([[0, 1, 2, 3, 4, 5, 5, 6, 7, 0, 0], [1, 2, 3, 4, 5, 0, 6, 7, 8, 0, 1]])
    return graphs.edges(torch.cat([ring, ring.flip(0)], dim=1), N)


# --- message passing ------------------------------------------------------------------------------


def plain_gnn() -> Tensor:
    h, u, v = torch.randn(N, F), torch.randn(F, F), torch.randn(F, F)
    return torch.relu(h @ u + ew.aggregate(h @ v, molecule()))


def mean_and_max() -> Tensor:
    h, graph = torch.randn(N, F), molecule()
    return ew.aggregate(h, graph, reduce="mean") + ew.aggregate(h, graph, reduce="max")


def gcn() -> Tensor:
    graph = molecule().with_self_loops()
    scale = graph.in_degree().float().rsqrt()
    return ew.aggregate(torch.randn(N, F), graph, weight=scale[graph.source] * scale[graph.target])


def graphsage() -> Tensor:
    h, w, b = torch.randn(N, F), torch.randn(F, F), torch.randn(F, F)
    return torch.relu(ew.aggregate(h, molecule(), reduce="mean") @ w + h @ b)


def gin() -> Tensor:
    h, epsilon = torch.randn(N, F), 0.1
    return torch.nn.Linear(F, F)((1 + epsilon) * h + ew.aggregate(h, molecule()))


def gat() -> Tensor:
    target, source = features(width=1), features(width=1)  # The products a·Wh and b·Wh.
    return ew.attend(target, source, features(), molecule().with_self_loops(), score=ew.Additive())


def gatv2() -> Tensor:
    score = ew.Additive("leaky_relu", weight=torch.randn(H, D))
    return ew.attend(features(), features(), features(), molecule(), score=score)


def monet() -> Tensor:
    """Compute MoNet: K Gaussian kernels of pseudo-coordinates give edge weights for K heads."""
    graph, mean = molecule(), torch.randn(H, 2)
    coordinate = graph.gather_source(torch.randn(N, 2)) - graph.gather_target(torch.randn(N, 2))
    kernel = (-0.5 * (coordinate[:, None] - mean).square().sum(-1)).exp()
    return ew.aggregate(features(), graph, weight=kernel)


def magna() -> Tensor:
    """Compute MAGNA: multi-hop attention, which applies the same weights several times."""
    graph, value, alpha = molecule(), features(), 0.1
    target, source = (features().tanh() @ torch.randn(D, 1) for _ in range(2))  # a·tanh(Wh)
    weight = ew.attention_weights(target, source, graph, score=ew.Additive())
    out = value
    for _ in range(6):
        out = (1 - alpha) * ew.aggregate(out, graph, weight=weight) + alpha * value
    return out


def graph_transformer_scalar() -> Tensor:
    """Compute a graph Transformer in which scalar edge weights multiply the scores."""
    graph = molecule()
    return ew.attend(features(), features(), features(), graph, gain=torch.rand(graph.num_edges, 1))


def graph_transformer_vector() -> Tensor:
    """Compute TransformerConv: projected edge features are added to key and value.

    The projected features of all edges, a tensor E×H×D, are never in memory.
    """
    graph = molecule()
    edge = ew.Projected(torch.randn(graph.num_edges, 3), torch.randn(H, D, 3))
    return ew.attend(features(), features(), features(), graph, edge_key=edge, edge_value=edge)


def gated_gcn() -> Tensor:
    """Compute GatedGCN: edge features are updated, and give a gate for each channel."""
    graph, h, edge = molecule(), torch.randn(N, F), torch.randn(molecule().num_edges, F)
    edge = edge + graph.gather_target(h) + graph.gather_source(h)
    gate = edge.sigmoid()
    # Each channel is a head, so that the gates are edge weights [E, heads].
    total = ew.aggregate(torch.ones(N, F, 1), graph, weight=gate)
    return ew.aggregate(h[..., None], graph, weight=gate) / (total + 1e-6)


def graphormer() -> Tensor:
    """Compute Graphormer: full attention with a bias by the shortest path between two nodes."""
    distance, table = torch.randint(5, (N * N,)), torch.randn(5, H, requires_grad=True)
    along_path = torch.randn(N * N, H)
    bias = ew.TableBias(distance, table).expand() + along_path
    return ew.attend(features(), features(), features(), graphs.complete(), bias=bias)


def gps() -> Tensor:
    """Compute GPS: the sum of message passing and of full attention within each graph."""
    sizes = [5, 7]
    local = ew.aggregate(torch.randn(N, F), molecule())
    everywhere = graphs.batch(graphs.complete(), sizes)
    return local + ew.attend(features(), features(), features(), everywhere).flatten(1)


# --- sequences ------------------------------------------------------------------------------------


def encoder_decoder() -> Tensor:
    """Compute cross-attention: all 5 targets attend to all 9 sources."""
    return ew.attend(features(5), features(9), features(9), graphs.complete())


def cached_decoding() -> Tensor:
    """Compute a decoding step with a key-value cache: one target attends to N sources."""
    return ew.attend(features(1), features(), features(), graphs.causal())


def bert() -> Tensor:
    """Compute full attention within packed sentences of different lengths, without padding."""
    packed = graphs.batch(graphs.complete(), [3, 4, 5])
    return ew.attend(features(), features(), features(), packed)


def grouped_query_heads() -> Tensor:
    """Compute grouped-query attention as in Llama: several query heads share a key head."""
    key, value = (features(heads=2).repeat_interleave(H // 2, dim=-2) for _ in range(2))
    return ew.attend(features(), key, value, graphs.causal())


def transformer_xl() -> Tensor:
    """Compute Transformer-XL: tokens also attend to older ones, with a bias by distance."""
    memory = 6
    graph = graphs.causal().bind(N, N + memory)
    distance = graph.target + memory - graph.source
    bias = ew.TableBias(distance, torch.randn(N + memory, H))
    return ew.attend(features(), features(N + memory), features(N + memory), graph, bias=bias)


# --- images ---------------------------------------------------------------------------------------


def vit() -> Tensor:
    """Compute ViT: a class token is in front of the patches and connected to all of them."""
    return ew.attend(*(features(N + 1) for _ in range(3)), graphs.virtual(graphs.complete()))


def swin() -> Tensor:
    """Compute Swin: shifted windows are blocks in another node order; the bias is a table."""
    side, window = 4, 2
    node = torch.arange(side * side).view(side, side).roll((-1, -1), (0, 1))
    order = node.unflatten(0, (-1, window)).unflatten(2, (-1, window)).transpose(1, 2).flatten()
    graph = graphs.blocks(window * window).bind(side * side)
    offset = (graph.target - graph.source) % (2 * window * window - 1)
    bias = ew.TableBias(offset, torch.randn(2 * window * window - 1, H))
    x = [features(side * side)[order] for _ in range(3)]
    return ew.attend(*x, graph, bias=bias)[order.argsort()]


# --- sparse transformers --------------------------------------------------------------------------


def longformer() -> Tensor:
    """Compute Longformer: a window and hubs, where hubs attend with separate projections.

    A target has edges in only one of the two graphs, so the outputs can be added. For graphs that
    share targets, ``attend_with_lse`` and ``merge_attention`` normalise over both.
    """
    hub_rows = graphs.hubs([0], is_read=False)
    others = (graphs.window(2) | graphs.hubs([0], reads=False)) - hub_rows
    local = ew.attend(features(), features(), features(), others)
    return local + ew.attend(features(), features(), features(), hub_rows)


def two_projections_one_softmax() -> Tensor:
    """Compute attention in which near and far sources have different keys and values.

    The weights are normalised over both by ``merge_attention``.
    """
    query = features()
    near = ew.attend_with_lse(query, features(), features(), graphs.window(2))
    far = ew.attend_with_lse(query, features(), features(), graphs.complete() - graphs.window(2))
    return ew.merge_attention([near, far])[0]


def bigbird() -> Tensor:
    """Compute BigBird with a window, hubs and random edges between single tokens.

    In BigBird these are between blocks of tokens; ``graphs.expand(graph, size)`` does this.
    """
    graph = graphs.window(1) | graphs.hubs([0]) | graphs.random(2, seed=1)
    return ew.attend(features(), features(), features(), graph)


def reformer() -> Tensor:
    """Compute Reformer: in each round, tokens attend to tokens in the same hash bucket.

    The outputs of all rounds are merged, and each edge counts once.
    """
    query, value = features(), features()
    key = normalize(query, dim=-1)
    seen, parts = graphs.empty().bind(N), []
    for _ in range(2):
        rotated = key[:, 0] @ torch.randn(D, 2)
        bucket = torch.cat([rotated, -rotated], dim=-1).argmax(-1)
        graph = graphs.from_dense(bucket[:, None] == bucket)
        parts.append(ew.attend_with_lse(query, key, value, graph - seen))
        seen = seen | graph
    return ew.merge_attention(parts)[0]


def bp_transformer() -> Tensor:
    """Compute BP-Transformer: tokens and spans form a binary tree, with a bias by edge type."""
    parents = [-1] + [(node - 1) // 2 for node in range(1, N)]
    graph = graphs.tree(parents).bind(N).with_self_loops()
    kind = (graph.source < graph.target).long() + 2 * (graph.source == graph.target).long()
    bias = ew.TableBias(kind, torch.randn(3, H, requires_grad=True))
    return ew.attend(features(), features(), features(), graph, bias=bias)


def lightweight_convolution() -> Tensor:
    """Compute a lightweight convolution: weights are a softmax over a learned number per offset."""
    graph = (graphs.causal() & graphs.window(3)).bind(N)
    bias = ew.TableBias(graph.target - graph.source, torch.randn(4, H, requires_grad=True))
    return ew.attend(features(), features(), features(), graph, score=None, bias=bias)


def dynamic_convolution() -> Tensor:
    """Compute a dynamic convolution: the number per offset is predicted from each token."""
    graph = (graphs.causal() & graphs.window(3)).bind(N)
    x = torch.randn(2, N, H, D)
    predicted = x @ torch.randn(D, 4)  # Shape [B, N, H, offsets].
    bias = predicted[:, graph.target, :, graph.target - graph.source].movedim(0, 1)
    return ew.attend(x, x, x, graph, score=None, bias=bias)


def sketch_transformer() -> Tensor:
    """Compute a multi-graph Transformer: each group of heads attends over a different graph."""
    groups = [graphs.window(1), graphs.window(1).power(2), graphs.complete()]
    return torch.cat([ew.attend(*(features() for _ in range(3)), g) for g in groups], dim=-2)


ARCHITECTURES = {
    name: function
    for name, function in list(globals().items())
    if callable(function)
    and getattr(function, "__module__", None) == __name__
    and name not in ("features", "molecule")
}


if __name__ == "__main__":
    torch.manual_seed(0)
    for name, architecture in ARCHITECTURES.items():
        out = architecture()
        assert math.isfinite(float(out.detach().sum()))
        print(f"{name:<28} {list(out.shape)}")
