"""Every architecture of the two fields, in a few lines on the primitive.

The signatures were settled by writing these down first. Each function is the heart of one layer
(weights are random, and projections are left out where they add nothing);
``docs/reference/architectures.md`` is the same as a table, and ``tests/test_docs.py`` runs them
all. The models that Edgewise ships are in ``edgewise.models``; this file shows what the primitive
can say.

    python examples/scripts/dry_run.py
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import normalize

import edgewise as ew
from edgewise import graphs

N, H, D = 12, 4, 8  # nodes, heads, width of a head
F = H * D


def features(nodes: int = N, heads: int = H, width: int = D) -> Tensor:
    return torch.randn(nodes, heads, width, requires_grad=True)


def molecule() -> ew.Graph:
    """A ring with a tail, and a self-loop and a duplicate among its edges."""
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
    target, source = features(width=1), features(width=1)  # a·Wh and b·Wh
    return ew.attend(target, source, features(), molecule().with_self_loops(), score=ew.Additive())


def gatv2() -> Tensor:
    score = ew.Additive("leaky_relu", weight=torch.randn(H, D))
    return ew.attend(features(), features(), features(), molecule(), score=score)


def monet() -> Tensor:
    """K Gaussian kernels over pseudo-coordinates are K heads of edge weights."""
    graph, mean = molecule(), torch.randn(H, 2)
    coordinate = graph.gather_source(torch.randn(N, 2)) - graph.gather_target(torch.randn(N, 2))
    kernel = (-0.5 * (coordinate[:, None] - mean).square().sum(-1)).exp()
    return ew.aggregate(features(), graph, weight=kernel)


def magna() -> Tensor:
    """Multi-hop attention: one set of weights, diffused K times."""
    graph, value, alpha = molecule(), features(), 0.1
    target, source = (features().tanh() @ torch.randn(D, 1) for _ in range(2))  # a·tanh(W h)
    weight = ew.attention_weights(target, source, graph, score=ew.Additive())
    out = value
    for _ in range(6):
        out = (1 - alpha) * ew.aggregate(out, graph, weight=weight) + alpha * value
    return out


def graph_transformer_scalar() -> Tensor:
    """Scalar edge weights multiply the scores, as in the lecture."""
    graph = molecule()
    return ew.attend(features(), features(), features(), graph, gain=torch.rand(graph.num_edges, 1))


def graph_transformer_vector() -> Tensor:
    """Edge vectors in key and value (TransformerConv), never expanded to E×H×D."""
    graph = molecule()
    edge = ew.Projected(torch.randn(graph.num_edges, 3), torch.randn(H, D, 3))
    return ew.attend(features(), features(), features(), graph, edge_key=edge, edge_value=edge)


def gated_gcn() -> Tensor:
    """Vector gates and edge updates: written with gathers and the sum."""
    graph, h, edge = molecule(), torch.randn(N, F), torch.randn(molecule().num_edges, F)
    edge = edge + graph.gather_target(h) + graph.gather_source(h)
    gate = edge.sigmoid()
    # A head for every channel, so that the gate is a weight a head.
    total = ew.aggregate(torch.ones(N, F, 1), graph, weight=gate)
    return ew.aggregate(h[..., None], graph, weight=gate) / (total + 1e-6)


def graphormer() -> Tensor:
    """The complete graph; shortest-path classes and edges along the path bias the scores."""
    distance, table = torch.randint(5, (N * N,)), torch.randn(5, H, requires_grad=True)
    along_path = torch.randn(N * N, H)
    bias = ew.TableBias(distance, table).expand() + along_path
    return ew.attend(features(), features(), features(), graphs.complete(), bias=bias)


def gps() -> Tensor:
    """Local messages and global attention, side by side; a batch is block-diagonal."""
    sizes = [5, 7]
    local = ew.aggregate(torch.randn(N, F), molecule())
    everywhere = graphs.batch(graphs.complete(), sizes)
    return local + ew.attend(features(), features(), features(), everywhere).flatten(1)


# --- sequences ------------------------------------------------------------------------------------


def encoder_decoder() -> Tensor:
    """Cross-attention is the complete bipartite graph."""
    return ew.attend(features(5), features(9), features(9), graphs.complete())


def cached_decoding() -> Tensor:
    """A step reads everything so far: one target, N sources, the same causal pattern."""
    return ew.attend(features(1), features(), features(), graphs.causal())


def bert() -> Tensor:
    """Packed sentences of different lengths, without padding."""
    packed = graphs.batch(graphs.complete(), [3, 4, 5])
    return ew.attend(features(), features(), features(), packed)


def grouped_query_heads() -> Tensor:
    """Llama: several query heads share a key head, which is repeated by view."""
    key, value = (features(heads=2).repeat_interleave(H // 2, dim=-2) for _ in range(2))
    return ew.attend(features(), key, value, graphs.causal())


def transformer_xl() -> Tensor:
    """Memory: more sources than targets, and a bias by distance; the targets are the newest."""
    memory = 6
    graph = graphs.causal().bind(N, N + memory)
    distance = graph.target + memory - graph.source
    bias = ew.TableBias(distance, torch.randn(N + memory, H))
    return ew.attend(features(), features(N + memory), features(N + memory), graph, bias=bias)


# --- images ---------------------------------------------------------------------------------------


def vit() -> Tensor:
    """A class token before the patches, on whatever graph the patches have."""
    return ew.attend(*(features(N + 1) for _ in range(3)), graphs.virtual(graphs.complete()))


def swin() -> Tensor:
    """Shifted windows: blocks in another node order, and a table of relative positions."""
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
    """Window and hubs; the hubs' own rows have projections of their own.

    The two graphs share no target, so that the parts add up. Where parts share targets,
    ``attend_with_lse`` and ``merge_attention`` normalise over both.
    """
    hub_rows = graphs.hubs([0], is_read=False)
    others = (graphs.window(2) | graphs.hubs([0], reads=False)) - hub_rows
    local = ew.attend(features(), features(), features(), others)
    return local + ew.attend(features(), features(), features(), hub_rows)


def two_projections_one_softmax() -> Tensor:
    """Parts with keys and values of their own, normalised together: the merge law."""
    query = features()
    near = ew.attend_with_lse(query, features(), features(), graphs.window(2))
    far = ew.attend_with_lse(query, features(), features(), graphs.complete() - graphs.window(2))
    return ew.merge_attention([near, far])[0]


def bigbird() -> Tensor:
    """Window, hubs and random edges over blocks of tokens: the block graph, blown up."""
    graph = graphs.window(1) | graphs.hubs([0]) | graphs.random(2, seed=1)
    return ew.attend(features(), features(), features(), graph)


def reformer() -> Tensor:
    """A graph computed from features: tokens of one bucket, in several rounds, merged."""
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
    """Token and span nodes in a binary tree; the type of an edge biases its score."""
    parents = [-1] + [(node - 1) // 2 for node in range(1, N)]
    graph = graphs.tree(parents).bind(N).with_self_loops()
    kind = (graph.source < graph.target).long() + 2 * (graph.source == graph.target).long()
    bias = ew.TableBias(kind, torch.randn(3, H, requires_grad=True))
    return ew.attend(features(), features(), features(), graph, bias=bias)


def lightweight_convolution() -> Tensor:
    """No scores: a softmax over a learned number for each offset in the window."""
    graph = (graphs.causal() & graphs.window(3)).bind(N)
    bias = ew.TableBias(graph.target - graph.source, torch.randn(4, H, requires_grad=True))
    return ew.attend(features(), features(), features(), graph, score=None, bias=bias)


def dynamic_convolution() -> Tensor:
    """The same, with the numbers predicted from the query: a bias for each member of a batch."""
    graph = (graphs.causal() & graphs.window(3)).bind(N)
    x = torch.randn(2, N, H, D)
    predicted = x @ torch.randn(D, 4)  # [B, N, H, offsets]
    bias = predicted[:, graph.target, :, graph.target - graph.source].movedim(0, 1)
    return ew.attend(x, x, x, graph, score=None, bias=bias)


def sketch_transformer() -> Tensor:
    """Multi-graph: a graph for each group of heads, side by side."""
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
