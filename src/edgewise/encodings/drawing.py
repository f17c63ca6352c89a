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
    the inner product of two added codes or of a vector rotated to both, or the bias.

    Args:
        encoding: an instance of a class of :data:`edgewise.encodings.ENCODINGS`, or codes of nodes
            ``[N, K]`` or of the pairs of one graph ``[N · N]``.
        path: image file to write, if any.
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
        codes, similarity = _precomputed_codes(encoding)
    else:
        codes, similarity = _codes(encoding, length, width, graph)
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    titles = ("code", "entry", "position"), ("similarity", "source", "target")
    for axes, image, (title, x, y) in zip(
        figure.subplots(1, 2), (codes, similarity), titles, strict=True
    ):
        # Infinite distances, between components, do not set the scale.
        limit = max(float(image.nan_to_num(0, 0, 0).abs().max()), 1e-9)
        axes.imshow(image.numpy(), cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(x, fontsize=8)
        axes.set_ylabel(y, fontsize=8)
    if path is not None:
        write_figure(path, figure)
    return figure


def _codes(
    encoding: nn.Module, length: int, width: int, graph: Graph | None
) -> tuple[Tensor, Tensor]:
    """Return the encoding of each position and the pairwise similarities of the positions."""
    if graph is None:
        graph = window(1).bind(length).without_self_loops()
    coded: Any = encoding
    if isinstance(encoding, tuple(OF_PAIRS.values())):
        bias = encoding(coded.code(graph))["bias"].expand()
        codes = bias.mean(-1).view(graph.num_targets, -1)
        return codes, codes
    if isinstance(encoding, tuple(OF_NODES.values())):
        encoding.eval()
        codes = encoding(torch.zeros(graph.num_targets, width), coded.code(graph))
    elif isinstance(encoding, tuple(RELATIVE.values())):
        return _relative(encoding, length)
    elif isinstance(encoding, tuple(TURNED.values())):
        codes = encoding(torch.ones(length, 1, width))[:, 0]
    else:
        codes = encoding(torch.zeros(length, width))
    return codes, codes @ codes.T


def _precomputed_codes(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Return codes of nodes or pairs as a matrix, and the pairwise similarities of the nodes."""
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
    """Return the score terms of the last position ``[length, H]``, and the means of all pairs."""
    graph = complete().bind(length)
    terms = _score_terms(encoding(graph), graph)
    is_last = graph.target == length - 1
    return terms[is_last], terms.mean(-1).view(length, length)


def _score_terms(terms: EdgeTerms, graph: Graph) -> Tensor:
    """Return the bias of each edge plus the sum of the vector added to its key, ``[E, H]``."""
    bias, key = terms.get("bias"), terms.get("edge_key")
    total = torch.zeros(graph.num_edges, 1)
    if bias is not None:
        total = total + (bias.expand() if isinstance(bias, TableBias) else bias)
    if key is not None:
        total = total + (key.expand() if isinstance(key, Projected) else key).sum(-1)
    return total
