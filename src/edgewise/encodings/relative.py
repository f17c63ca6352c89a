"""Relative positions: what an edge adds for the distance between its ends, on any graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

from edgewise.biases import EdgeTerms, OffsetBias, Offsets, Projected, TableBias
from edgewise.encodings.positions import offsets
from edgewise.encodings.sinusoidal import sinusoidal_positions
from edgewise.errors import ArgumentError
from edgewise.graphs import Graph, check_sized


class RelativeTable(nn.Module):
    r"""A learned number a head for every distance, :math:`b_{ij} = T[\mathrm{clip}(i - j)]`.

    Args:
        heads: H.
        radius: distances beyond it count as it.
    """

    def __init__(self, heads: int, radius: int = 16) -> None:
        super().__init__()
        self.radius = radius
        self.table = nn.Parameter(torch.empty(2 * radius + 1, heads))
        nn.init.normal_(self.table, std=0.02)

    def forward(self, graph: Graph) -> EdgeTerms:
        """The bias, for the edges of ``graph``."""
        key = ("radius", self.radius)
        return {"bias": by_offset(graph, key, lambda x: _clip(x, self.radius), self.table)}


class Buckets(nn.Module):
    """A learned number a head for every bucket of distances (T5, Raffel et al., 2020).

    Half of the buckets are single distances, the other half grow logarithmically up to
    ``max_distance``; the last holds all beyond.

    Args:
        heads: H.
        num_buckets: how many there are.
        max_distance: where the last bucket begins.
        bidirectional: whether half of the buckets are for sources after their target.
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
        """The bias, for the edges of ``graph``."""
        buckets = self.table.shape[0]
        key = ("buckets", buckets, self.max_distance, self.bidirectional)
        return {"bias": by_offset(graph, key, self.bucket, self.table)}

    def bucket(self, behind: Tensor) -> Tensor:
        """The bucket of a source that is ``behind`` positions before its target."""
        count = self.table.shape[0]
        shift = torch.zeros_like(behind)
        if self.bidirectional:
            count //= 2
            shift = (behind < 0).long() * count
            behind = behind.abs()
        behind = behind.clamp(min=0)
        exact = count // 2
        growth = (behind.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact)
        far = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return shift + torch.where(behind < exact, behind, far)


class ALiBi(nn.Module):
    r"""A penalty that grows with distance, :math:`b_{ij} = -m_h |i - j|` (Press et al., 2022).

    Nothing is learned and no length is special, so that longer texts than those of training can
    be read. The slopes are :math:`m_h = 2^{-8h/H}`, and between these for H not a power of two.

    Args:
        heads: H.
    """

    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def forward(self, graph: Graph) -> EdgeTerms:
        """The bias, for the edges of ``graph``."""
        check_sized(graph)
        longest = max(graph.num_sources, graph.num_targets)
        steps = torch.arange(longest, device=self.slopes.device, dtype=self.slopes.dtype)
        table = -steps[:, None] * self.slopes
        return {"bias": by_offset(graph, "distances", torch.abs, table)}


def alibi_slopes(heads: int) -> Tensor:
    """``[H]``, from steep to flat; for H not a power of two every other slope of 2H is added."""
    power = 2 ** int(math.log2(heads))  # the largest power of two up to H
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    slopes += [2 ** (-4 * (h + 1) / power) for h in range(0, 2 * (heads - power), 2)]
    return torch.tensor(slopes)


class Shaw(nn.Module):
    r"""Learned vectors for distances, added to keys and values (Shaw et al., 2018).

    .. math:: s_{ij} = q_i^\top (k_j + a^K_{\mathrm{clip}(i - j)}) / \sqrt D, \qquad
              o_i = \sum_j w_{ij} (v_j + a^V_{\mathrm{clip}(i - j)})

    Args:
        heads: H.
        width: D, of a head.
        radius: distances beyond it count as it.
    """

    def __init__(self, heads: int, width: int, radius: int = 16) -> None:
        super().__init__()
        self.radius = radius
        shape = (heads, width, 2 * radius + 1)
        self.key, self.value = (nn.Parameter(0.02 * torch.randn(shape)) for _ in range(2))

    def forward(self, graph: Graph) -> EdgeTerms:
        """Edge vectors, as projections of the distance's class that are never expanded."""
        index = _clipped(graph, self.radius)
        one_hot = nn.functional.one_hot(index, 2 * self.radius + 1).to(self.key.dtype)
        return {
            "edge_key": Projected(one_hot, self.key),
            "edge_value": Projected(one_hot, self.value),
        }


class TransformerXLRelative(nn.Module):
    r"""Projected waves of the distance, and a preference for distances (Dai et al., 2019).

    .. math:: s_{ij} \sqrt D = (q_i + u)^\top k_j + (q_i + v)^\top W R_{i - j}
              = (q_i + u)^\top (k_j + W R_{i - j}) + (v - u)^\top W R_{i - j}

    So u is the bias of the layer's query projection, which this module leaves to the layer; the
    rest is a vector and a number for each edge. ``offset`` is v - u.

    Args:
        heads: H.
        width: D, of a head.
        num_frequencies: width of R; an even number.
    """

    def __init__(self, heads: int, width: int, num_frequencies: int = 64) -> None:
        super().__init__()
        if num_frequencies % 2:
            raise ArgumentError(
                "num_frequencies",
                expected="an even number, for pairs of sine and cosine",
                got=repr(num_frequencies),
                remedy="add one to it",
            )
        self.weight = nn.Parameter(
            torch.randn(heads, width, num_frequencies) * num_frequencies**-0.5
        )
        self.offset = nn.Parameter(torch.zeros(heads, width))

    def forward(self, graph: Graph) -> EdgeTerms:
        """The bias and edge vectors, for the edges of ``graph``."""
        waves = sinusoidal_positions(offsets(graph), self.weight.shape[-1]).to(self.weight)
        scale = self.weight.shape[1] ** -0.5
        preference = torch.einsum("hd,hdf->hf", self.offset, self.weight) * scale
        return {"bias": waves @ preference.T, "edge_key": Projected(waves, self.weight)}


def _clipped(graph: Graph, radius: int) -> Tensor:
    make = lambda: _clip(offsets(graph), radius)  # noqa: E731 - a thunk
    return check_sized(graph).cached(("clipped", radius), make)


def _clip(behind: Tensor, radius: int) -> Tensor:
    return behind.clamp(-radius, radius) + radius


def by_offset(
    graph: Graph, key: Hashable, classes: Callable[[Tensor], Tensor], table: Tensor
) -> TableBias:
    """The bias of a table, by the class of how far behind its target a source is.

    Args:
        graph: whose edges they are, which keeps the classes.
        key: what to keep them under.
        classes: of offsets ``i - j``, those of pairs without an edge included.
        table: ``[classes, H]``.
    """
    graph = check_sized(graph).to(table.device)
    if torch.compiler.is_compiling():
        return TableBias(classes(offsets(graph)), table)

    def make() -> Offsets:
        # Positions, the targets' so much less that no difference of two is below 0: see `offsets`.
        target = torch.arange(1 - graph.num_targets, 1, device=table.device)
        source = torch.arange(graph.num_sources, device=table.device)
        count = max(graph.num_targets + graph.num_sources - 1, 0)
        behind = graph.num_sources - 1 - torch.arange(count, device=table.device)
        return Offsets(target, source, classes(behind), graph)

    return OffsetBias(graph.cached(("offsets", key), make), table)
