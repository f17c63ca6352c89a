"""Relative position encodings: attention terms that depend on the offset i - j of each edge."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

from edgewise._utils.arguments import check_even
from edgewise.attention.biases import EdgeTerms, OffsetBias, Offsets, Projected, TableBias
from edgewise.encodings.positions import offsets
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.graphs import Graph, check_sized


class RelativeTable(nn.Module):
    r"""Learned bias of each clipped offset, :math:`b_{ij} = T[\mathrm{clip}(i - j, -r, r)]`.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> from edgewise.layers import MultiHeadAttention
        >>> graph = graphs.window(1).bind(10)
        >>> encoding = encodings.RelativeTable(4)
        >>> MultiHeadAttention(32, 4)(torch.randn(10, 32), graph, **encoding(graph)).shape
        torch.Size([10, 32])
    """

    def __init__(self, heads: int, radius: int = 16) -> None:
        super().__init__()
        self.radius = radius
        self.table = nn.Parameter(torch.empty(2 * radius + 1, heads))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, graph: Graph) -> EdgeTerms:
        """Return the attention bias of the edges of ``graph``, as keyword arguments of a layer."""
        key = ("radius", self.radius)
        return {"bias": by_offset(graph, key, lambda x: _clip(x, self.radius), self.table)}


class Buckets(nn.Module):
    r"""Learned bias of each bucket of offsets, :math:`b_{ij} = T[\mathrm{bucket}(i - j)]` (T5).

    Half of the buckets hold one small offset each, the others ranges that get wider in proportion
    to the offset, up to ``max_distance`` (Raffel et al., 2020).

    Args:
        bidirectional: half of the buckets are for sources after the target; if false, all of these
            share bucket 0.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> from edgewise.layers import MultiHeadAttention
        >>> graph = graphs.window(1).bind(10)
        >>> encoding = encodings.Buckets(4)
        >>> MultiHeadAttention(32, 4)(torch.randn(10, 32), graph, **encoding(graph)).shape
        torch.Size([10, 32])
    """

    def __init__(
        self,
        heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        *,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.table = nn.Parameter(torch.empty(num_buckets, heads))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, graph: Graph) -> EdgeTerms:
        """Return the attention bias of the edges of ``graph``, as keyword arguments of a layer."""
        buckets = self.table.shape[0]
        key = ("buckets", buckets, self.max_distance, self.bidirectional)
        return {"bias": by_offset(graph, key, self.bucket, self.table)}

    def bucket(self, offset: Tensor) -> Tensor:
        """Return the bucket of each offset i - j, negative for sources j after the target i."""
        count = self.table.shape[0]
        shift = torch.zeros_like(offset)
        if self.bidirectional:
            count //= 2
            shift = (offset < 0).long() * count
            offset = offset.abs()
        offset = offset.clamp(min=0)
        exact = count // 2
        growth = (offset.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return shift + torch.where(offset < exact, offset, far)


class ALiBi(nn.Module):
    """Penalty proportional to distance, :math:`b_{ij} = -m_h |i - j|` (Press et al., 2022).

    There are no parameters and no maximum length. The slope of head h = 1, …, H is :math:`m_h =
    2^{-8h/H}` if H is a power of two. Otherwise, the first P slopes are those for P heads, with the
    next lower power of two P, and the others are the first, third, fifth, … slope for 2P heads.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> from edgewise.layers import MultiHeadAttention
        >>> graph = graphs.window(1).bind(10)
        >>> encoding = encodings.ALiBi(4)
        >>> MultiHeadAttention(32, 4)(torch.randn(10, 32), graph, **encoding(graph)).shape
        torch.Size([10, 32])
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def forward(self, graph: Graph) -> EdgeTerms:
        """Return the attention bias of the edges of ``graph``, as keyword arguments of a layer."""
        check_sized(graph)
        count = max(graph.num_sources, graph.num_targets)
        steps = torch.arange(count, device=self.slopes.device, dtype=self.slopes.dtype)
        table = -steps[:, None] * self.slopes
        return {"bias": by_offset(graph, "distances", torch.abs, table)}


def alibi_slopes(heads: int) -> Tensor:
    """Return the slopes :math:`m_h` of :class:`ALiBi`, ``[H]``."""
    power = 2 ** int(math.log2(heads))  # Largest power of two up to H.
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-4 * (h + 1) / power) for h in range(0, 2 * (heads - power), 2)]
    return torch.tensor(slopes)


class Shaw(nn.Module):
    r"""Learned vectors of clipped offsets, added to keys and values (Shaw et al., 2018).

    .. math:: s_{ij} = q_i^\top (k_j + a^K_{\mathrm{clip}(i - j)}) / \sqrt D, \qquad
              o_i = \sum_j w_{ij} (v_j + a^V_{\mathrm{clip}(i - j)})

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> from edgewise.layers import MultiHeadAttention
        >>> graph = graphs.window(1).bind(10)
        >>> encoding = encodings.Shaw(4, 8)
        >>> MultiHeadAttention(32, 4)(torch.randn(10, 32), graph, **encoding(graph)).shape
        torch.Size([10, 32])
    """

    def __init__(self, heads: int, width: int, radius: int = 16) -> None:
        super().__init__()
        self.radius = radius
        shape = (heads, width, 2 * radius + 1)
        self.key, self.value = (nn.Parameter(0.02 * torch.randn(shape)) for _ in range(2))

    def forward(self, graph: Graph) -> EdgeTerms:
        """Return the vectors of each edge added to keys and values, as arguments of a layer."""
        index = _clipped(graph, self.radius)
        one_hot = nn.functional.one_hot(index, 2 * self.radius + 1).to(self.key.dtype)
        return {
            "edge_key": Projected(one_hot, self.key),
            "edge_value": Projected(one_hot, self.value),
        }


class TransformerXLRelative(nn.Module):
    r"""Relative attention of Transformer-XL, from projected sinusoids R of the offset (2019).

    .. math:: s_{ij} \sqrt D = (q_i + u)^\top k_j + (q_i + v)^\top W R_{i - j}
              = (q_i + u)^\top (k_j + W R_{i - j}) + (v - u)^\top W R_{i - j}

    The module returns :math:`W R_{i - j}`, which attention adds to the key, and the last term as a
    bias. The bias of the query projection serves as u; the parameter ``offset`` is v - u.

    Paper: Dai et al., Transformer-XL: attentive language models beyond a fixed-length context, 2019

    Args:
        encoding_width: number of features of R, half of them sines and half cosines.

    Example:
        >>> import torch
        >>> from edgewise import encodings, graphs
        >>> from edgewise.layers import MultiHeadAttention
        >>> graph = graphs.window(1).bind(10)
        >>> encoding = encodings.TransformerXLRelative(4, 8)
        >>> MultiHeadAttention(32, 4)(torch.randn(10, 32), graph, **encoding(graph)).shape
        torch.Size([10, 32])
    """

    def __init__(self, heads: int, width: int, encoding_width: int = 64) -> None:
        super().__init__()
        why = "half of the features are sines and half are cosines"
        check_even("encoding_width", encoding_width, why)
        self.weight = nn.Parameter(torch.randn(heads, width, encoding_width) * encoding_width**-0.5)
        self.offset = nn.Parameter(torch.zeros(heads, width))

    def forward(self, graph: Graph) -> EdgeTerms:
        """Return the bias and the vectors added to keys, as keyword arguments of a layer."""
        waves = sinusoidal_positions(offsets(graph), self.weight.shape[-1]).to(self.weight)
        scale = self.weight.shape[1] ** -0.5
        preference = torch.einsum("hd,hdf->hf", self.offset, self.weight) * scale
        return {"bias": waves @ preference.T, "edge_key": Projected(waves, self.weight)}


def _clipped(graph: Graph, radius: int) -> Tensor:
    make = lambda: _clip(offsets(graph), radius)  # noqa: E731 - evaluated later
    return check_sized(graph).cached(("clipped", radius), make)


def _clip(offset: Tensor, radius: int) -> Tensor:
    return offset.clamp(-radius, radius) + radius


def by_offset(
    graph: Graph, key: Hashable, classes: Callable[[Tensor], Tensor], table: Tensor
) -> TableBias:
    """Return the bias ``table[classes(i - j)]`` of each edge, with classes stored by ``key``."""
    graph = check_sized(graph).to(table.device)
    if torch.compiler.is_compiling():
        return TableBias(classes(offsets(graph)), table)

    def make() -> Offsets:
        # Shift the positions of the targets so that no difference is negative; see `offsets`.
        target = torch.arange(1 - graph.num_targets, 1, device=table.device)
        source = torch.arange(graph.num_sources, device=table.device)
        count = max(graph.num_targets + graph.num_sources - 1, 0)
        offset = graph.num_sources - 1 - torch.arange(count, device=table.device)
        return Offsets(target, source, classes(offset), graph)

    return OffsetBias(graph.cached(("offsets", key), make), table)
