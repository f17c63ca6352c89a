r"""Laplacian eigenvectors and eigenvalues, and encodings based on them.

.. math:: L = I - D^{-1/2} A D^{-1/2} = U Λ U^\top, \qquad \mathrm{code}_i = (U_{i1}, …, U_{ik})

The sign of an eigenvector is arbitrary: :class:`Laplacian` samples it in every training step, and
:class:`SignInvariant` does not depend on it. The basis of a repeated eigenvalue is arbitrary too,
and all encodings of this module depend on it, so outputs may change when nodes are renumbered. With
k = 10, 45 % of the 1,128 graphs of ESOL and 42 % of 12,000 graphs of ZINC have a repeated
eigenvalue. In 72 % of these ESOL graphs and 68 % of these ZINC graphs, an eigenvector and its
negative have the same entries up to order, so no rule on the entries can choose the sign.

Papers: Dwivedi and Bresson, A generalization of Transformer networks to graphs, 2020; Lim et al.,
Sign and basis invariant networks for spectral graph representation learning, 2022.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_range
from edgewise._utils.errors import ArgumentError, counted, require
from edgewise.encodings.code import GraphEncoding, check_code
from edgewise.encodings.members import (
    LARGEST,
    Members,
    check_undirected,
    member_sizes,
    members_by_size,
)
from edgewise.graphs import Graph
from edgewise.graphs.graph import fact_of_graph

CONNECTED = 1e-8
"""Eigenvalues below this number count as 0; a graph has one eigenvalue 0 per component."""
SAME = 1e-6
"""Eigenvalues (in float32) that differ by less than this number count as equal."""
NOTHING = 1e-6
"""Entries of an eigenvector that are below this number in absolute value count as 0."""


def laplacian_eigenvectors(graph: Graph, k: int) -> Tensor:
    """Return the Laplacian eigenvectors of the k lowest nonzero eigenvalues, ``[N, k]``.

    Eigenvectors have length 1, and their first nonzero entry is positive, which depends on the node
    order; the basis of a repeated eigenvalue is arbitrary. If a graph of the batch has fewer than
    k, the remaining columns are 0. Self-loops are ignored.

    Raises:
        ArgumentError: the graph is directed, or k is below 1.
        MissingExtraError: the graph has more than 8,192 nodes, and SciPy is not installed.

    Example:
        >>> from edgewise import encodings, graphs
        >>> path = graphs.grid(1, 3).bind(3)
        >>> encodings.laplacian_eigenvectors(path, 2).shape
        torch.Size([3, 2])
    """
    return laplacian_eigenpairs(graph, k)[1]


def laplacian_spectrum(graph: Graph, k: int) -> Tensor:
    """Return the k lowest nonzero Laplacian eigenvalues of each graph of a batch, ``[G, k]``.

    If a graph has fewer, the remaining entries are 2, the largest possible eigenvalue.

    Example:
        >>> from edgewise import encodings, graphs
        >>> ring = graphs.grid(2, 2).bind(4)
        >>> encodings.laplacian_spectrum(ring, 3).shape
        torch.Size([1, 3])
    """
    values = laplacian_eigenpairs(graph, k)[0]
    return values.masked_fill(values == 0, 2.0)


@fact_of_graph
def laplacian_eigenpairs(graph: Graph, k: int) -> tuple[Tensor, Tensor]:
    """Return the k lowest nonzero Laplacian eigenvalues ``[G, k]`` and eigenvectors ``[N, k]``.

    Missing entries are 0; see :func:`laplacian_eigenvectors`.

    Example:
        >>> from edgewise import encodings, graphs
        >>> path = graphs.grid(1, 3).bind(3)
        >>> values, vectors = encodings.laplacian_eigenpairs(path, 2)
        >>> values.shape, vectors.shape
        (torch.Size([1, 2]), torch.Size([3, 2]))
    """
    check_range("k", k, "choose for example 8", least=1)
    sizes = member_sizes(graph)
    if len(sizes) == 1 and int(sizes[0]) > LARGEST:
        return _of_large(graph, k)
    vectors = torch.zeros(graph.num_targets, k, dtype=torch.double, device=graph.device)
    values = torch.zeros(len(sizes), k, dtype=torch.double, device=graph.device)
    for members in members_by_size(graph):
        check_undirected(members)
        eigenvalues, eigenvectors = torch.linalg.eigh(_laplacian(members))
        # Eigenvalues are sorted in ascending order, so the first ``num_zero`` eigenvalues are 0.
        num_zero = (eigenvalues < CONNECTED).sum(1, keepdim=True)
        column = num_zero + torch.arange(k, device=graph.device)
        exists = column < eigenvalues.shape[1]
        column = column.clamp(max=eigenvalues.shape[1] - 1)
        values[members.graph_ids] = eigenvalues.gather(1, column) * exists
        index = column[:, None].expand(-1, eigenvectors.shape[1], -1)
        vectors[members.nodes] = _with_sign(eigenvectors.gather(2, index)) * exists[:, None]
    return values.float(), vectors.float()


def has_repeated_eigenvalues(values: Tensor) -> Tensor:
    """Return whether two nonzero eigenvalues of each graph, ``[G, k]``, are equal, ``[G]``."""
    return ((values.diff(dim=1) < SAME) & (values[:, 1:] > 0)).any(1)


def _with_sign(vectors: Tensor) -> Tensor:
    """Return eigenvectors ``[..., n, k]``, negated if their first nonzero entry is negative."""
    first = (vectors.abs() > NOTHING).byte().argmax(-2, keepdim=True)
    return vectors * vectors.gather(-2, first).sign()


def _laplacian(members: Members) -> Tensor:
    """Return the normalised Laplacians ``[B, n, n]`` of B graphs; rows of isolated nodes are 0."""
    adjacency = members.without_loops()
    degree = adjacency.sum(2)
    scale = degree.clamp(min=1).rsqrt()
    return torch.diag_embed((degree > 0).double()) - scale[:, :, None] * adjacency * scale[:, None]


def _of_large(graph: Graph, k: int) -> tuple[Tensor, Tensor]:
    """Return :func:`laplacian_eigenpairs` of one large graph, by the Lanczos method."""
    require("scipy", extra="graphs", purpose="eigenvectors of a large graph")
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, laplacian
    from scipy.sparse.linalg import eigsh

    n = graph.num_targets
    source, target = graph.edge_index.cpu().numpy()
    is_edge = source != target  # Without self-loops.
    ones = torch.ones(int(is_edge.sum()), dtype=torch.double).numpy()
    matrix = coo_array((ones, (target[is_edge], source[is_edge])), shape=(n, n)).tocsr()
    matrix.data[:] = 1  # SciPy has summed duplicate edges; an edge counts once.
    if (matrix != matrix.T).nnz:
        raise ArgumentError(
            "graph",
            expected="an undirected graph, with every edge in both directions",
            got="edges in one direction only",
            remedy="add the reverse edges: graph | graph.transpose()",
        )
    zero, _ = connected_components(matrix)
    if zero + k >= n:
        raise ArgumentError(
            "k",
            expected=f"fewer than {n - zero}, for {n} nodes in {counted(zero, 'component')}",
            got=str(k),
            remedy="choose a smaller k",
        )
    # Lanczos finds the largest eigenvalues without solving linear systems, so use 2 - L.
    shifted = -laplacian(matrix, normed=True)
    shifted.setdiag(shifted.diagonal() + 2)
    # A fixed start makes the result reproducible.
    start = torch.ones(n, dtype=torch.double).numpy()
    eigenvalues, eigenvectors = eigsh(shifted, k=zero + k, which="LA", v0=start)
    order = eigenvalues.argsort()[::-1][zero:]
    values = torch.from_numpy(2 - eigenvalues[order].copy()).float()[None]
    vectors = _with_sign(torch.from_numpy(eigenvectors[:, order].copy())).float()
    return values.to(graph.device), vectors.to(graph.device)


def random_signs(like: Tensor, *shape: int) -> Tensor:
    """Sample signs, 1 or -1, of this shape, in the dtype and on the device of ``like``."""
    return (torch.randint(2, shape, device=like.device) * 2 - 1).to(like)


class RepeatedEigenvalueWarning(UserWarning):
    """Warning: eigenvectors of repeated eigenvalues depend on the node order.

    Example:
        >>> import warnings
        >>> from edgewise import graphs, models
        >>> san = models.san(8, 2)
        >>> with warnings.catch_warnings(record=True, action="always") as caught:
        ...     code = san.position.code(graphs.grid(2, 2).bind(4))
        >>> caught[0].category.__name__
        'RepeatedEigenvalueWarning'
    """


class Laplacian(GraphEncoding):
    """Add a linear map of Laplacian eigenvectors U, :math:`x_i + W (U_{i1}, …, U_{ik})`.

    The sign of each eigenvector is sampled in every training step.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> chain = graphs.grid(1, 10).bind(10)
        >>> encoding = encodings.Laplacian(16, k=2)
        >>> encoding(torch.randn(10, 16), encoding.code(chain)).shape
        torch.Size([10, 16])
    """

    def __init__(self, width: int, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.settings = (k,)
        self.project = nn.Linear(k, width, bias=False)

    def code(self, graph: Graph) -> Tensor:
        """Return the eigenvectors ``[N, k]``. Compute them once per data set."""
        return laplacian_eigenvectors(graph, self.k)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return x ``[N, width]`` plus the linear map of the eigenvectors ``code``, ``[N, k]``."""
        check_code(code, x.shape[-2], self.k)
        code = code.to(x)
        if self.training:
            code = code * random_signs(code, self.k)
        out: Tensor = x + self.project(code)
        return out


class SignInvariant(GraphEncoding):
    """Add a map of Laplacian eigenvectors that does not depend on their signs (SignNet).

    The result is :math:`x + ρ([φ(u_1) + φ(-u_1), …, φ(u_k) + φ(-u_k)])`, with networks ρ and φ.

    Args:
        hidden: hidden and output size of φ, which is the same for all eigenvectors.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> chain = graphs.grid(1, 10).bind(10)
        >>> encoding = encodings.SignInvariant(16, k=2)
        >>> encoding(torch.randn(10, 16), encoding.code(chain)).shape
        torch.Size([10, 16])
    """

    def __init__(self, width: int, k: int = 8, hidden: int = 16) -> None:
        super().__init__()
        self.k = k
        self.settings = (k,)
        self.each = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.all = nn.Sequential(nn.Linear(k * hidden, width), nn.ReLU(), nn.Linear(width, width))

    def code(self, graph: Graph) -> Tensor:
        """Return the eigenvectors ``[N, k]``; see :meth:`Laplacian.code`."""
        return laplacian_eigenvectors(graph, self.k)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """Return x ``[N, width]`` plus the map of the eigenvectors ``code``, ``[N, k]``."""
        check_code(code, x.shape[-2], self.k)
        code = code.to(x)[..., None]
        both = self.each(code) + self.each(-code)
        out: Tensor = x + self.all(both.flatten(-2))
        return out
