"""SAN: attention with separate queries and keys for the edges and for all other pairs.

Formula: h_i' = FFN(norm(h_i + W (near_i + γ far_i) / (1 + γ))); near, far: two attention outputs
Graph: the input graph; and a second graph of all pairs of nodes that are not edges
Score: ``Dot`` (scaled) on both graphs; keys of edges are multiplied by a map of edge features
Encoding: a small Transformer over the eigenvalues and the node's entries of their eigenvectors
Normalisation: a separate softmax on each graph; batch norm after each sublayer
Update: residuals around attention and the feed-forward network
Paper: Kreuzer et al., Rethinking graph transformers with spectral attention, 2021

Over the edges, near_i = Σ_j softmax_j(q_i·(k_j ∘ (1 + E e_ij)) / √D) v_j. Over all other pairs,
far_i = Σ_j softmax_j(q'_i·k'_j / √D) v_j.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_divides
from edgewise._utils.ragged import segment_index
from edgewise.attention.attend import attend
from edgewise.encodings import laplacian_eigenpairs
from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.laplacian import (
    RepeatedEigenvalueWarning,
    has_repeated_eigenvalues,
    random_signs,
)
from edgewise.encodings.members import member_graphs, member_sizes
from edgewise.graphs import Graph, Pattern, complete, empty, membership
from edgewise.graphs import batch as batch_of
from edgewise.graphs.graph import fact_of_graph
from edgewise.layers import (
    FeedForward,
    GraphLayer,
    JointLinear,
    Linear,
    Membership,
    Pool,
    Residual,
    TransformerLayer,
    check_edge_attr,
    packed_graph,
)
from edgewise.layers.pooling import Pooling
from edgewise.models.arguments import model_factory
from edgewise.models.gps import NormName


class LearnedSpectrum(GraphEncoding):
    r"""Add a learned encoding of the Laplacian spectrum to node features.

    .. math:: x_i + \tfrac{1}{m} P \sum_l \mathrm{Transformer}([A (λ_1, u_{1i}), …])_l

    A node has one token, eigenvalue and eigenvector entry, for each of the m lowest nonzero
    eigenvalues. The paper concatenates the sum with the node features; adding a projection of it is
    as expressive. Signs of eigenvectors are sampled in every training step. In evaluation, the
    encoding depends on the node order, because signs and the basis of a repeated eigenvalue are
    arbitrary: renumbering the atoms of ESOL changes outputs (of about 2) by 7e-3 in the median.
    """

    def __init__(self, width: int, k: int, *, hidden: int, depth: int, heads: int) -> None:
        super().__init__()
        self.k, self._has_warned = k, False
        self.settings = (k,)
        self.embed = nn.Linear(2, hidden)
        self.layers = nn.ModuleList(
            TransformerLayer(hidden, heads, 2 * hidden) for _ in range(depth)
        )
        self.sum = Pool("sum")
        self.project = nn.Linear(hidden, width, bias=False)

    def code(self, graph: Graph) -> Tensor:
        """Return each node's k pairs of eigenvalue and eigenvector entry, ``[N, k, 2]``, padded
        with 0. Warns once if a graph has a repeated eigenvalue.
        """
        code, repeated = _spectrum(graph, self.k)
        # Compiled code does not warn.
        if repeated and not self._has_warned and not torch.compiler.is_compiling():
            self._has_warned = True
            shown = ", ".join(map(str, repeated[:10])) + (", ..." if len(repeated) > 10 else "")
            warnings.warn(
                f"{len(repeated)} of {len(member_sizes(graph))} graphs have repeated Laplacian "
                f"eigenvalues (graphs {shown}): their eigenvectors are not unique, so the outputs "
                "of SAN for these graphs change when the nodes are renumbered. Remedy: keep the "
                "order of the nodes, or use an encoding without eigenvectors, such as RandomWalk",
                RepeatedEigenvalueWarning,
                stacklevel=2,
            )
        return code

    def forward(self, x: Tensor, code: Tensor, graph: Graph | None = None) -> Tensor:
        """Return x ``[N, width]`` plus the encoding, given the ``[N, k, 2]`` from :meth:`code`.

        In compiled code, tokens follow from ``graph``, because they cannot from the values of
        ``code``.
        """
        check_code(code, x.shape[-2], self.k, 2)
        if graph is not None and torch.compiler.is_compiling():
            index, pairs, members = graph.derived(_tokens, self.k)
        else:
            index, pairs, members = _tokens_of(code)
        value, vector = code.to(x).unbind(-1)
        if self.training:
            vector = vector * random_signs(vector, self.k)
        tokens = self.embed(torch.stack([value, vector], dim=-1).flatten(0, 1)[index])
        for layer in self.layers:
            tokens = layer(tokens, pairs)
        # Without the division, encodings change faster than the running means of batch norm.
        read = self.sum(tokens, members) / self.k
        out: Tensor = x + self.project(read)
        return out


@fact_of_graph
def _spectrum(graph: Graph, k: int) -> tuple[Tensor, list[int]]:
    """Return the code ``[N, k, 2]`` and the graphs of the batch with a repeated eigenvalue."""
    # One more, because the last eigenvalue can equal the first that is left out.
    values, vectors = laplacian_eigenpairs(graph, k + 1)
    member = segment_index(member_sizes(graph), graph.num_targets)
    repeated: list[int] = has_repeated_eigenvalues(values).nonzero()[:, 0].tolist()
    return torch.stack([values[member], vectors], dim=-1)[:, :k], repeated


def _tokens(graph: Graph, k: int) -> tuple[Tensor, Graph, Graph]:
    return _tokens_of(_spectrum(graph, k)[0])


def _tokens_of(code: Tensor) -> tuple[Tensor, Graph, Graph]:
    """Return the indices of the entries of ``code [N, k, 2]`` that are no padding, the complete
    graph of those of each node, and the bipartite graph from them to the nodes.
    """
    exists = code[..., 0] > 0
    count = exists.sum(1)
    pairs, members = batch_of(complete(), count), membership(count)
    return exists.flatten().nonzero()[:, 0], pairs.to(code.device), members.to(code.device)


class SpectralAttention(GraphLayer):
    r"""Attention over two disjoint graphs, :math:`W (\mathrm{near} + γ\,\mathrm{far}) / (1 + γ)`,
    with separate queries and keys.
    """

    reads_edge_attr = True

    def __init__(self, width: int, heads: int, edge_width: int, gamma: float) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.gamma = heads, gamma
        self.project = JointLinear(width, [width] * 5)
        self.edge = nn.Linear(edge_width, width) if edge_width else None
        self.output = nn.Linear(width, width)

    def forward(
        self, x: Tensor, graph: Graph, others: Graph, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Return features ``[..., N, width]`` from x of the same shape."""
        projections = self.project(x).unflatten(-1, (5, self.heads, -1)).unbind(-3)
        query, key, far_query, far_key, value = projections
        edge_key = None
        if self.edge is not None and edge_attr is not None:
            scale = self.edge(edge_attr).unflatten(-1, (self.heads, -1))
            edge_key = graph.gather_source(key, -3) * scale
        near = attend(query, key, value, graph, edge_key=edge_key)
        far = attend(far_query, far_key, value, others)
        out: Tensor = self.output(((near + self.gamma * far) / (1 + self.gamma)).flatten(-2))
        return out


class SANLayer(GraphLayer):
    """SAN layer: :class:`SpectralAttention`, then a feed-forward network."""

    reads_edge_attr = True

    def __init__(
        self,
        width: int,
        heads: int,
        edge_width: int,
        gamma: float,
        *,
        norm: NormName = "batch",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        attention = SpectralAttention(width, heads, edge_width, gamma)
        network = FeedForward(width, 2 * width, dropout=dropout)
        self.attention = Residual(attention, width, norm=norm, dropout=dropout)
        self.feed_forward = Residual(network, width, norm=norm, dropout=dropout)

    def forward(
        self, x: Tensor, graph: Graph, others: Graph, edge_attr: Tensor | None = None
    ) -> Tensor:
        """Return features ``[..., N, width]``; for the arguments see :class:`SpectralAttention`."""
        out: Tensor = self.feed_forward(self.attention(x, graph, others, edge_attr))
        return out


class SAN(GraphLayer):
    """SAN for graph-level outputs.

    Called as ``model(x [N, in_width], graph, edge_attr=[E, edge_width], batch=...)``. Unless
    ``gamma`` is 0, the cost of attention is quadratic in the size of each graph. Outputs depend on
    the node order; see :class:`LearnedSpectrum`. The defaults are those of the paper for ZINC,
    except γ, which is 1e-5 in the paper.

    Other differences: keys of edges are multiplied by 1 + E e, not E e; a missing self-loop counts
    as a pair without an edge; eigenvalue 0 is omitted; and pairs without an edge have no learned
    vector in place of E e. The two softmaxes are separate, as in the paper, not as in the authors'
    code.

    Args:
        gamma: weight γ of the pairs without an edge; edges have weight 1 (0 = edges only).
        position_width: hidden size of the Transformer that encodes positions.
        position_depth: number of layers of the Transformer that encodes positions.
        position_heads: number of attention heads per layer of the Transformer that encodes
            positions.
        norm: kind of norm: "batch" or "layer".

    Example:
        >>> import torch
        >>> from edgewise import graphs, models
        >>> chains = graphs.batch(graphs.window(1), [4, 6])
        >>> model = models.san(16, 1, depth=2)
        >>> model(torch.randn(10, 16), chains, batch=[4, 6]).shape
        torch.Size([2, 1])
    """

    reads_edge_attr = True

    def __init__(
        self,
        in_width: int,
        out_width: int,
        *,
        edge_width: int = 0,
        gamma: float = 0.1,
        position_size: int = 10,
        position_width: int = 8,
        position_depth: int = 2,
        position_heads: int = 4,
        width: int = 56,
        depth: int = 10,
        heads: int = 8,
        norm: NormName = "batch",
        pool: Pooling = "sum",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_divides(
            "position_heads",
            position_heads,
            position_width,
            "position_width",
            "change position_heads or position_width",
        )
        self.edge_width, self.gamma = edge_width, gamma
        self.embed = Linear(in_width, width)
        self.position = LearnedSpectrum(
            width, position_size, hidden=position_width, depth=position_depth, heads=position_heads
        )
        self.layers = nn.ModuleList(
            SANLayer(width, heads, edge_width, gamma, norm=norm, dropout=dropout)
            for _ in range(depth)
        )
        self.pool = Pool(pool)
        self.head = nn.Sequential(
            nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, out_width)
        )

    def encodings(self) -> dict[str, nn.Module]:
        return {"positions": self.position}

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        edge_attr: Tensor | None = None,
        batch: Membership = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Return outputs ``[B, out_width]``; without edge features, keys are not scaled.

        ``positions`` is ``model.position.code(graph)``, if computed before.
        """
        graph = packed_graph(x, graph, batch)
        nodes = self.embed(x)
        check_edge_attr(edge_attr, graph, self.edge_width, like=x)
        code = self.position.code(graph) if positions is None else positions
        x = self.position(nodes, code, graph)
        others = self.others(graph)
        for layer in self.layers:
            x = layer(x, graph, others, edge_attr)
        out: Tensor = self.head(self.pool(x, batch))
        return out

    def others(self, graph: Graph) -> Graph:
        """Return the pairs of nodes of the same graph that are not edges; no pairs if γ = 0."""
        return graph.derived(_pairs_without_edge if self.gamma else _no_pairs)


def _pairs_without_edge(graph: Graph) -> Graph:
    return (member_graphs(graph) - graph).bind(graph.num_targets)


def _no_pairs(graph: Graph) -> Graph:
    return member_graphs(graph, empty())


san = model_factory(SAN, depth=0, edge_width=0, position_depth=0, gamma=0)
