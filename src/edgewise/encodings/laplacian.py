r"""Eigenvectors of the graph's Laplacian: what sine and cosine are on a line, on any graph.

.. math:: L = I - D^{-1/2} A D^{-1/2} = U Λ U^\top, \qquad \mathrm{code}_i = (U_{i1}, …, U_{ik})

Neighbours have similar entries where the eigenvalue, the frequency, is low. Each eigenvector may
have either sign, which :class:`Laplacian` draws anew in every step of training and
:class:`SignInvariant` makes no difference of. Of a repeated eigenvalue every basis is as good as
another, and none of these is invariant to that.

Papers: Dwivedi and Bresson, A generalization of Transformer networks to graphs, 2020; Lim et al.,
Sign and basis invariant networks for spectral graph representation learning, 2022.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from edgewise.arguments import check_least
from edgewise.encodings.code import check_code
from edgewise.encodings.members import (
    LARGEST,
    Members,
    check_undirected,
    member_sizes,
    members_by_size,
)
from edgewise.errors import ArgumentError, require
from edgewise.graphs import Graph

CONNECTED = 1e-8
"""Eigenvalues below it are 0: there is one for each connected component."""
SAME = 1e-6
"""Eigenvalues that differ by less, in float32, are equal."""
NOTHING = 1e-6
"""Numbers of an eigenvector below it are 0 but for rounding."""


def laplacian_eigenvectors(graph: Graph, k: int) -> Tensor:
    """The k eigenvectors of lowest frequency but 0, ``[N, k]``, each of length 1.

    Of its two signs each has the one with which the first node that is not 0 is above it, so that a
    graph has the same numbers in every batch; which node is first is no property of a graph, and of
    an eigenvalue that is there twice any basis may come. The eigenvectors of frequency 0 say only
    which component a node is in, and its degree, of which they are the root; they are left out. A
    member of a packed batch with fewer others than k has columns of 0. Self-loops do not count.

    Args:
        graph: undirected; each member of a packed batch has eigenvectors of its own.
        k: how many.

    Raises:
        ArgumentError: the graph is directed, or k is below 1.
        MissingExtraError: it has more than 8,192 nodes, and SciPy is not installed.

    """
    return laplacian_eigenpairs(graph, k)[1]


def laplacian_spectrum(graph: Graph, k: int) -> Tensor:
    """The k lowest eigenvalues but 0 of each member, ``[G, k]``; 2 where there are fewer.

    Two graphs of other spectra are not the same; 2 is the highest that there can be.
    """
    values = laplacian_eigenpairs(graph, k)[0]
    return values.masked_fill(values == 0, 2.0)


def laplacian_eigenpairs(graph: Graph, k: int) -> tuple[Tensor, Tensor]:
    """The k lowest eigenvalues but 0 of each member, ``[G, k]``, and their eigenvectors ``[N, k]``.

    See :func:`laplacian_eigenvectors`. Where a member has fewer, both are 0, which no eigenvalue
    here is.
    """
    check_least("k", k, 1, "choose for example 8")
    sizes = member_sizes(graph)
    if len(sizes) == 1 and int(sizes[0]) > LARGEST:
        return _of_large(graph, k)
    vectors = torch.zeros(graph.num_targets, k, dtype=torch.double, device=graph.device)
    values = torch.zeros(len(sizes), k, dtype=torch.double, device=graph.device)
    for members in members_by_size(graph):
        check_undirected(members)
        found, vector = torch.linalg.eigh(_laplacian(members))
        zero = (found < CONNECTED).sum(1, keepdim=True)  # the lowest, as they are sorted
        column = zero + torch.arange(k, device=graph.device)
        there = column < found.shape[1]
        column = column.clamp(max=found.shape[1] - 1)
        values[members.which] = found.gather(1, column) * there
        chosen = vector.gather(2, column[:, None].expand(-1, vector.shape[1], -1))
        vectors[members.nodes] = _with_sign(chosen) * there[:, None]
    return values.float(), vectors.float()


def has_repeated_eigenvalues(values: Tensor) -> Tensor:
    """Return for each graph whether two of its eigenvalues ``[G, k]`` are equal, ``[G]``.

    Zeros are padding. An eigenspace that the first k eigenvalues include only in part is not seen.
    """
    return ((values.diff(dim=1) < SAME) & (values[:, 1:] > 0)).any(1)


def _with_sign(vectors: Tensor) -> Tensor:
    """``[..., n, k]`` with the first number of each column that is not 0 above 0."""
    first = (vectors.abs() > NOTHING).byte().argmax(-2, keepdim=True)
    return vectors * vectors.gather(-2, first).sign()


def _laplacian(members: Members) -> Tensor:
    """``[B, n, n]``; a node without edges has 0 on the diagonal, as a component of its own."""
    adjacency = members.without_loops()
    degree = adjacency.sum(2)
    scale = degree.clamp(min=1).rsqrt()
    return torch.diag_embed((degree > 0).double()) - scale[:, :, None] * adjacency * scale[:, None]


def _of_large(graph: Graph, k: int) -> tuple[Tensor, Tensor]:
    """One graph of many nodes, by Lanczos' method, which never makes its matrix dense."""
    require("scipy", extra="graphs", purpose="eigenvectors of a large graph")
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components, laplacian
    from scipy.sparse.linalg import eigsh

    n = graph.num_targets
    source, target = (part.cpu().numpy() for part in (graph.source, graph.target))
    other = source != target
    ones = torch.ones(int(other.sum()), dtype=torch.double).numpy()
    matrix = coo_array((ones, (target[other], source[other])), shape=(n, n)).tocsr()
    matrix.data[:] = 1  # an edge that is listed twice
    if (matrix != matrix.T).nnz:
        raise ArgumentError(
            "graph",
            expected="an undirected graph, every edge in both directions",
            got="edges in one direction",
            remedy="add the other direction: graph | graph.transpose()",
        )
    zero, _ = connected_components(matrix)
    if zero + k >= n:
        raise ArgumentError(
            "k",
            expected=f"fewer than {n - zero} eigenvectors, of {zero} components",
            got=str(k),
            remedy="lower it",
        )
    # The lowest of L are the largest of 2 - L, which Lanczos finds without solving systems.
    shifted = -laplacian(matrix, normed=True)
    shifted.setdiag(shifted.diagonal() + 2)
    start = torch.ones(n, dtype=torch.double).numpy()  # the same vectors in every run
    found, vectors = eigsh(shifted, k=zero + k, which="LA", v0=start)
    order = found.argsort()[::-1][zero:]
    values = torch.from_numpy(2 - found[order].copy())
    found_vectors = _with_sign(torch.from_numpy(vectors[:, order].copy())).float()
    return values.float()[None].to(graph.device), found_vectors.to(graph.device)


def random_signs(k: int, like: Tensor) -> Tensor:
    """``[k]``, 1 or -1 for each eigenvector, of which either sign is as good."""
    return (torch.randint(2, (k,), device=like.device) * 2 - 1).to(like)


class RepeatedEigenvalueWarning(UserWarning):
    """A model reads eigenvectors of repeated eigenvalues, whose basis depends on the node order."""


class Laplacian(nn.Module):
    """Add projected eigenvectors to the features of nodes, with random signs in training.

    Args:
        width: of the features.
        k: how many eigenvectors.

    """

    compares_graphs = False
    of_pairs = False

    def __init__(self, width: int, k: int = 8) -> None:
        super().__init__()
        self.k = k
        self.project = nn.Linear(k, width, bias=False)

    @property
    def settings(self) -> tuple[int, ...]:
        """What the code depends on besides the graph."""
        return (self.k,)

    def code(self, graph: Graph) -> Tensor:
        """``[N, k]``, what :meth:`forward` is given: to be computed once for a data set."""
        return laplacian_eigenvectors(graph, self.k)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """``[N, width]`` from x of that shape and eigenvectors ``[N, k]``."""
        check_code(code, x.shape[-2], self.k)
        code = code.to(x)
        if self.training:
            code = code * random_signs(self.k, code)
        out: Tensor = x + self.project(code)
        return out


class SignInvariant(nn.Module):
    r"""Add a code that is the same for either sign, :math:`ρ([φ(u_1) + φ(-u_1), …])` (SignNet).

    Args:
        width: of the features.
        k: how many eigenvectors.
        hidden: width of φ, one network for all eigenvectors.

    """

    compares_graphs = False
    of_pairs = False

    def __init__(self, width: int, k: int = 8, hidden: int = 16) -> None:
        super().__init__()
        self.k = k
        self.each = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.all = nn.Sequential(nn.Linear(k * hidden, width), nn.ReLU(), nn.Linear(width, width))

    @property
    def settings(self) -> tuple[int, ...]:
        """What the code depends on besides the graph."""
        return (self.k,)

    def code(self, graph: Graph) -> Tensor:
        """``[N, k]``; see :meth:`Laplacian.code`."""
        return laplacian_eigenvectors(graph, self.k)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        """``[N, width]`` from x of that shape and eigenvectors ``[N, k]``."""
        check_code(code, x.shape[-2], self.k)
        code = code.to(x)[..., None]
        both = self.each(code) + self.each(-code)
        out: Tensor = x + self.all(both.flatten(-2))
        return out
