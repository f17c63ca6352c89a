"""LightGCN: embeddings of users and items are propagated along their interactions.

Formula: z = mean over k = 0 … K of (D^-½ A D^-½)^k e; s_ui = z_u · z_i, or their cosine
Graph: bipartite graph of interactions between users and items, in both directions
Score: none; an edge from j to i has weight 1/√(d_i d_j), with node degrees d, in all K hops
Normalisation: symmetric, by degree
Update: none; the hops are averaged
Paper: He et al., LightGCN: simplifying and powering graph convolution network, 2020
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.functional import normalize

from edgewise.attention.attend import aggregate
from edgewise.graphs import Graph, Pattern, edges
from edgewise.graphs.graph import bind_graph
from edgewise.layers import Recommender, symmetric_weight
from edgewise.layers.sum_of_parts import SumOfParts
from edgewise.models.arguments import model_factory

# Settings of the low-pass filter, chosen on held-out items of Gowalla: a fifth of those of 3,000
# users.
EXPONENT = 0.35
IDEAL = 0.2
SHARPENING = 0.5
VECTORS = 448
FLOOR = 1e-3  # Added before the logarithm, because items without a path to the user have score 0.
USERS = 256  # Users filtered at once, to limit memory.


class LightGCN(Recommender):
    r"""LightGCN recommender: propagated embeddings of users and items, compared pair by pair.

    Called as ``model(users [B], items [M], graph)``; see :class:`edgewise.layers.Recommender`.

    Args:
        width: embedding size.
        hops: number of propagation steps (0 = none).
        cosine: score by cosine similarity instead of the inner product.
        low_pass: weight w of a low-pass filter of the graph (0 = none). In evaluation and
            prediction, :math:`w \log(\max(f_{ui}, 0) + 0.001)` is added to :math:`s_{ui}`, with the
            scores f of ``edgewise.models.lightgcn.low_pass_filter``. It is not used in training,
            because it contains the interactions that are trained on.

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> model = models.lightgcn(num_users=3, num_items=4)
        >>> pairs = torch.tensor([[0, 1, 2], [3, 4, 6]])  # items are numbered after users
        >>> interactions = graphs.edges(pairs, 7)
        >>> graph = interactions | interactions.transpose()
        >>> model(torch.tensor([0, 1]), torch.arange(4), graph).shape
        torch.Size([2, 4])
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        *,
        width: int = 64,
        hops: int = 2,
        cosine: bool = True,
        low_pass: float = 0.0,
    ) -> None:
        super().__init__(num_users, num_items, width)
        self.hops, self.cosine, self.low_pass = hops, cosine, low_pass
        self.combine = SumOfParts()

    def embed(self, graph: Pattern, nodes: Tensor | None = None) -> Tensor:
        h = self.table(nodes)
        graph = bind_graph(graph, len(h), len(h), h.device)
        weight = symmetric_weight(graph).to(h.dtype)
        total = h
        for _ in range(self.hops):
            h = aggregate(h, graph, weight=weight)
            total = total + h
        return normalize(total, dim=-1) if self.cosine else total / (self.hops + 1)

    def scores(self, z: Tensor, users: Tensor, items: Tensor, graph: Pattern) -> Tensor:
        scores = super().scores(z, users, items, graph)
        if self.training or not self.low_pass:
            return scores
        graph = bind_graph(graph, len(z), len(z), z.device)
        filtered = low_pass_filter(users, graph, self.num_users).index_select(1, items)
        low_pass = self.low_pass * (filtered.clamp(min=0) + FLOOR).log().to(scores.dtype)
        total: Tensor = self.combine({"embeddings": scores, "low-pass filter": low_pass})
        return total


lightgcn = model_factory(LightGCN, hops=0, low_pass=0)


def low_pass_filter(users: Tensor, graph: Graph, num_users: int) -> Tensor:
    r"""Return the scores ``[B, items]`` of a low-pass filter of the graph, without parameters.

    .. math:: f_{ui} = \big[ R D_I^{-p} (P + α V V^\top) (I - γ P) D_I^p \big]_{ui}, \qquad
              P = \tilde R^\top \tilde R, \quad \tilde R = D_U^{-1/2} R D_I^{-1/2}

    R is the matrix ``[users, items]`` of interactions, D_U and D_I are the degrees, p = 0.35, α =
    0.2, γ = 0.5, and V are the first 448 right singular vectors of R̃, computed once per graph. The
    first factor is GF-CF (Shen et al., How powerful is graph convolution for recommendation?,
    2021), the second one step of sharpening (Choi et al., Blurring-sharpening process models for
    collaborative filtering, 2023).
    """
    to_users, to_items, weight, vectors, values = graph.cached(
        ("low pass", num_users), lambda: _both_directions(graph, num_users)
    )
    scale = graph.in_degree()[:, None].float().clamp(min=1) ** EXPONENT

    def smooth(h: Tensor) -> Tensor:
        return aggregate(aggregate(h, to_users, weight=weight), to_items, weight=weight)

    filtered = []
    for user_batch in users.split(USERS):
        h = aggregate(F.one_hot(user_batch, graph.num_targets).t().float(), to_items) / scale
        ideal = vectors @ ((1 - SHARPENING * values**2)[:, None] * (vectors.t() @ h))
        blurred = smooth(h)
        sharp = blurred - SHARPENING * smooth(blurred) + IDEAL * ideal
        filtered.append((sharp * scale)[num_users:].t())
    return torch.cat(filtered)


def _both_directions(graph: Graph, num_users: int) -> tuple[Graph, Graph, Tensor, Tensor, Tensor]:
    """Return the edges to users, those to items, their weights, singular vectors and values."""
    source, target = graph.edge_index
    chosen = target < num_users
    pairs = torch.stack([source[chosen], target[chosen]])
    to_users, to_items = (
        edges(edge_index, graph.num_targets) for edge_index in (pairs, pairs.flip(0))
    )
    shape = (num_users, graph.num_targets - num_users)
    weight = symmetric_weight(graph)[chosen].float()
    indices = torch.stack([pairs[1], pairs[0] - num_users])
    matrix = torch.sparse_coo_tensor(indices, weight, shape, check_invariants=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        # A few more vectors than needed make the last ones more accurate.
        _left, values, right = torch.svd_lowrank(matrix, q=min(VECTORS + 10, *shape), niter=4)
    vectors = right.new_zeros(graph.num_targets, min(VECTORS, right.shape[1]))
    vectors[num_users:] = right[:, :VECTORS]
    return to_users, to_items, weight, vectors, values[:VECTORS]
