"""Figures of position encodings: the codes of positions and their pairwise similarities."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import describe
from edgewise._utils.errors import ArgumentError, require
from edgewise._utils.writing import write_figure
from edgewise.attention.biases import EdgeTerms, Projected, TableBias
from edgewise.encodings.tables import OF_NODES, OF_PAIRS, RELATIVE, TURNED
from edgewise.graphs import Graph, complete, window

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@torch.no_grad()
def draw(
    encoding: nn.Module | Tensor,
    path: str | Path | None = None,
    *,
    length: int = 64,
    width: int = 32,
    graph: Graph | None = None,
) -> Figure:
    """Plot the codes of ``length`` positions beside their pairwise similarities.

    The similarity of two positions is the contribution of the encoding to their attention score:
    the inner product of the two codes if codes are added to features, the inner product of a
    constant vector rotated to both positions, or the bias of a relative encoding.

    Args:
        encoding: an instance of a class of :data:`edgewise.encodings.ENCODINGS`, or codes of nodes
            ``[N, K]`` or of the pairs of one graph ``[N · N]``.
        path: image file to write, if any.
        length: number of positions.
        width: feature size of an added encoding, or head size of a rotary one.
        graph: graph for encodings of nodes or pairs; a path of ``length`` nodes by default.

    Raises:
        ArgumentError: the codes are neither of nodes nor of the pairs of one graph.

    Example:
        >>> from edgewise import encodings
        >>> figure = encodings.draw(encodings.Sinusoidal(32))  # a matplotlib figure
    """
    require("matplotlib", extra="plot", purpose="drawing an encoding")
    from matplotlib.figure import Figure

    if isinstance(encoding, Tensor):
        codes, alike = _as_they_are(encoding)
    else:
        codes, alike = _codes(encoding, length, width, graph)
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    titles = ("code", "entry", "position"), ("similarity", "source", "target")
    for axes, shown, (title, x, y) in zip(
        figure.subplots(1, 2), (codes, alike), titles, strict=True
    ):
        # Infinite distances, between components, do not set the scale.
        limit = max(float(shown.nan_to_num(0, 0, 0).abs().max()), 1e-9)
        axes.imshow(shown.numpy(), cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(x, fontsize=8)
        axes.set_ylabel(y, fontsize=8)
    if path is not None:
        write_figure(path, figure)
    return figure


def _codes(
    encoding: nn.Module, length: int, width: int, graph: Graph | None
) -> tuple[Tensor, Tensor]:
    """Return the encoding of each position and the pairwise similarities of the positions.

    The arguments are those of :func:`draw`. For a relative encoding, the first result holds the
    terms that it adds to the scores of the last position, one row per source.
    """
    if graph is None:
        graph = window(1).bind(length).without_self_loops()
    of_graph: Any = encoding
    if isinstance(encoding, tuple(OF_PAIRS.values())):
        bias = encoding(of_graph.code(graph))["bias"].expand()
        alike = bias.mean(-1).view(graph.num_targets, -1)
        codes = alike
    elif isinstance(encoding, tuple(OF_NODES.values())):
        encoding.eval()
        codes = encoding(torch.zeros(graph.num_targets, width), of_graph.code(graph))
        alike = codes @ codes.T
    elif isinstance(encoding, tuple(RELATIVE.values())):
        codes, alike = _relative(encoding, length)
    elif isinstance(encoding, tuple(TURNED.values())):
        codes = encoding(torch.ones(length, 1, width))[:, 0]
        alike = codes @ codes.T
    else:
        codes = encoding(torch.zeros(length, width))
        alike = codes @ codes.T
    return codes, alike


def _as_they_are(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Return precomputed encodings as a matrix, and the pairwise similarities of the nodes.

    Args:
        codes: encodings of nodes ``[N, K]``, whose similarities are their inner products; or of
            pairs of nodes ``[N · N]``, which are themselves the similarities.
    """
    nodes = math.isqrt(codes.numel())
    if codes.dim() not in (1, 2) or (codes.dim() == 1 and nodes**2 != len(codes)):
        raise ArgumentError(
            "encoding",
            expected="codes of nodes [N, K], or of the pairs of one graph [N · N]",
            got=describe(codes),
            remedy="plot the code of a single graph, not of a batch",
        )
    if codes.dim() == 1:
        codes = codes.view(nodes, nodes).float()
        return codes, codes
    return codes.float(), codes.float() @ codes.float().T


def _relative(encoding: nn.Module, length: int) -> tuple[Tensor, Tensor]:
    """Return the terms that a relative encoding adds to attention scores on ``length`` positions.

    Returns:
        The terms of the last position, ``[length, H]`` with one row per source, and the terms of
        all pairs of positions, ``[length, length]``, averaged over the heads.
    """
    graph = complete().bind(length)
    terms = encoding(graph)
    edge = _numbers(terms, graph)
    from_last = graph.target == length - 1
    return edge[from_last], edge.mean(-1).view(length, length)


def _numbers(terms: EdgeTerms, graph: Graph) -> Tensor:
    """Return one number for each edge and head, ``[E, H]``, from the edge terms of attention.

    The number is the bias of the edge plus the sum of the entries of the vector that is added to
    its key.
    """
    bias, key = terms.get("bias"), terms.get("edge_key")
    total = torch.zeros(graph.num_edges, 1)
    if bias is not None:
        total = total + (bias.expand() if isinstance(bias, TableBias) else bias)
    if key is not None:
        total = total + (key.expand() if isinstance(key, Projected) else key).sum(-1)
    return total
