"""The engine "dense": attention over all pairs of nodes by matrix products, with a mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from edgewise.attention.biases import EdgeTerm, TableBias
from edgewise.attention.normalisers import Entmax
from edgewise.attention.scores import Additive, Dot
from edgewise.engines.call import ACCUMULATORS, AttentionCall, Problem, can_read, exceeds_lse
from edgewise.engines.costs import Work
from edgewise.engines.entmax import entmax
from edgewise.engines.merge import softmax_with_lse
from edgewise.engines.reference import REFERENCE, EdgeLayout, expand, wide

HOPPER = (9, 0)
MOST_MASKED_PAIRS = 1 << 30  # Maximum number of pairs in a boolean mask, which then takes 1 GiB.


class Padding(NamedTuple):
    """Padding of all graphs of a packed batch to one length."""

    node: Tensor  # [blocks * length], the node at each position; 0 for padding.
    position: Tensor  # [N], the position of each node.


@dataclass(frozen=True, eq=False)
class DenseLayout:
    """Graph as boolean matrices ("blocks") of ``rows`` targets and ``columns`` sources.

    A packed batch has one block for each of its graphs; other graphs have one block.
    """

    blocks: int
    rows: int
    columns: int
    list_edges: Callable[[], EdgeLayout]
    row_padding: Padding | None = None
    column_padding: Padding | None = None
    mask: Tensor | None = None  # [blocks, rows, columns]; None if full or causal.
    causal: bool = False  # Whether the mask is the lower triangle.
    slot: Tensor | None = None  # [E], index of each edge's pair; None if edges are in this order.

    @property
    def full(self) -> bool:
        """True if every pair is an edge."""
        return self.mask is None and not self.causal

    @property
    def edges(self) -> EdgeLayout:
        """The graph as a list of edges, as the engine "reference" reads it."""
        return self.list_edges()

    @property
    def num_pairs(self) -> int:
        """Number of pairs of a target and a source in all blocks, with or without an edge."""
        return self.blocks * self.rows * self.columns


class Dense:
    """Attention over all pairs of nodes, with a mask for pairs that are not edges.

    Its dropout mask comes from PyTorch's generator, so it differs from that of other engines.
    """

    name = "dense"
    layout = DenseLayout
    grouped_heads = False

    def refuses(self, problem: Problem) -> list[str]:
        """Return the reasons why this engine cannot compute a call; an empty list if it can."""
        reasons = []
        if problem.duplicates:
            reasons.append("a matrix cannot represent an edge that occurs twice")
        if problem.edge_vectors:
            reasons.append("edge_key and edge_value would need a vector for every pair of nodes")
        if problem.reduce in ("max", "min"):
            reasons.append(f"it cannot reduce by {problem.reduce}")
        if problem.grid > MOST_MASKED_PAIRS and not (problem.full and self._fused(problem)):
            reasons.append(f"{problem.grid:,} pairs of nodes are too many for a matrix")
        return reasons

    def work(self, problem: Problem) -> Work:
        """Return the number of times each operation runs; pairs cost most."""
        heads = problem.batch * problem.heads
        pairs, elements = heads * problem.grid, problem.width + problem.value_width
        if problem.operation == "aggregate":
            return "dense sums", {"call": 1, "pair": pairs, "product": pairs * elements}
        masked = not problem.full
        if self._fused(problem):
            nodes = heads * (problem.num_targets + problem.num_sources)
            # PyTorch's causal attention computes only the pairs that are edges, about half.
            pairs = heads * (problem.grid if masked else problem.num_edges)
            return "dense fused", {
                "call": 1,
                "look": masked or problem.grid != problem.num_edges,
                "bias": problem.bias,
                "bias pair": problem.bias * pairs,
                "node": nodes,
                "element": nodes * elements,
                "pair": pairs,
                "masked pair": masked * pairs,
                "product": pairs * elements,
            }
        custom = not issubclass(problem.score, Dot | NoneType)
        return "dense scores", {
            "call": 1,
            "pair": pairs,
            "masked pair": masked * pairs,
            "term pair": (problem.gain + problem.bias) * pairs,
            "own pair": custom * pairs,  # A user-defined score has a vector for each pair.
            "own element": custom * pairs * problem.width,
            "product": pairs * elements,
            "entmax pair": problem.entmax * pairs,
        }

    def attend(self, call: AttentionCall, layout: DenseLayout) -> Tensor:
        """Return the attention output ``[..., N_dst, H, Dv]``."""
        needs_scores = call.gain is not None or call.normaliser is not None
        if not isinstance(call.score, Dot) or needs_scores or layout.num_pairs == 0:
            return self.attend_with_lse(call, layout)[0]
        if layout.full and _would_vanish(call):
            return self.attend_with_lse(call, layout)[0]
        if _would_spread(call, layout):
            return REFERENCE.attend(call, layout.edges)
        query, scale = _positive(call.query, call.score.scale_for(call.query.shape[-1]))
        mask = layout.mask[:, None] if layout.mask is not None else None
        if call.bias is not None:
            mask = _grid(call.bias, layout, call.query.shape[-2], -torch.inf)
            if layout.causal:
                mask = mask.masked_fill(_upper(layout, mask.device), -torch.inf)
            largest = mask.detach().amax(-1, keepdim=True)
            if can_read(call.query, mask) and exceeds_lse(largest):
                return self.attend_with_lse(call, layout)[0]
            # PyTorch's kernel keeps a log-sum-exp as one number, so the largest bias of a row is
            # subtracted, which does not change the weights.
            mask = mask - largest.masked_fill(largest == -torch.inf, 0.0)
            if mask.shape[:-4].numel() > 1:
                mask = mask.expand(*call.batch, *mask.shape[-4:])
            mask = mask.flatten(0, -4)
        if mask is not None and 1 < len(mask) < call.batch.numel() * layout.blocks:
            mask = mask.expand(*call.batch, *mask.shape).flatten(0, -4)
        nodes = (
            _members(query, layout.row_padding, layout.rows, call.batch),
            _members(call.key, layout.column_padding, layout.columns, call.batch),
            _members(call.value, layout.column_padding, layout.columns, call.batch),
        )
        causal, dropout = layout.causal and mask is None, call.dropout
        with _best_kernels(query) if mask is None and query.is_cuda else nullcontext():
            out = F.scaled_dot_product_attention(
                *nodes, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
            ).transpose(1, 2)
        shape = *call.batch, layout.blocks * layout.rows, *out.shape[2:]
        return _unpad(_shaped(out, shape), layout.row_padding)

    def attend_with_lse(self, call: AttentionCall, layout: DenseLayout) -> tuple[Tensor, Tensor]:
        """Return output and log-sum-exp; all scores are kept in memory."""
        if _would_spread(call, layout):
            return REFERENCE.attend_with_lse(call, layout.edges)
        scores = self._scores(call, layout)
        # Expand to the whole batch, so that each example gets its own dropout mask.
        if call.dropout > 0:
            scores = scores.expand(*call.batch, *scores.shape[-4:])
        weights, lse = _normalised(scores, call.normaliser)
        if call.dropout > 0:
            weights = F.dropout(weights, call.dropout)
        out = weights @ wide(_columns(call.value, layout))
        lse = lse.expand(*call.batch, *lse.shape[-3:])
        out = out.expand(*call.batch, *out.shape[-4:])
        return _nodes(out.to(call.value.dtype), layout), _nodes(lse[..., None], layout).squeeze(-1)

    def aggregate(
        self, value: Tensor, weight: Tensor | None, reduce: str, layout: DenseLayout
    ) -> Tensor:
        """Return the matrix of edge weights times that of values; ``reduce`` is "sum" or "mean"."""
        if not layout.full and can_read(value) and not _finite(value):
            return REFERENCE.aggregate(value, weight, reduce, layout.edges)
        matrix = _edge_counts(layout, value)
        degree = matrix.sum(-1, keepdim=True)
        if weight is not None:
            matrix = _grid(weight, layout, value.shape[-2], 0.0)
        out = wide(matrix) @ wide(_columns(value, layout))
        if reduce == "mean":
            out = out / degree.clamp(min=1)
        return _nodes(out.to(value.dtype), layout)

    def _fused(self, problem: Problem) -> bool:
        return issubclass(problem.score, Dot) and not (
            problem.gain
            or problem.lse
            or problem.dropout
            or problem.entmax
            or problem.operation == "aggregate"
        )

    def _scores(self, call: AttentionCall, layout: DenseLayout) -> Tensor:
        """Return the scores ``[..., blocks, H, rows, columns]``; -inf for pairs without an edge."""
        query, key = wide(_rows(call.query, layout)), wide(_columns(call.key, layout))
        heads = call.query.shape[-2]
        if isinstance(call.score, Dot):
            scores = query @ key.transpose(-1, -2) * call.score.scale_for(query.shape[-1])
        elif call.score is None:
            batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
            scores = query.new_zeros(*batch, layout.rows, layout.columns)
        else:  # A score function returns heads in the last dimension.
            paired = call.score(query.transpose(-2, -3)[..., None, :, :], _pairs(key))
            scores = paired.movedim(-1, -3)
        if call.gain is not None:
            scores = scores * wide(_grid(call.gain, layout, heads, 0.0))
        if call.bias is not None:
            scores = scores + wide(_grid(call.bias, layout, heads, -torch.inf))
        if layout.mask is not None:
            scores = scores.masked_fill(~layout.mask[:, None], -torch.inf)
        if layout.causal:
            scores = scores.masked_fill(_upper(layout, scores.device), -torch.inf)
        return scores


def _normalised(scores: Tensor, normaliser: Entmax | None) -> tuple[Tensor, Tensor]:
    """Return the attention weights and the log-sum-exp of the scores, which is 0 for entmax."""
    if normaliser is None:
        return softmax_with_lse(scores, -1)
    lse = scores.detach().new_zeros(scores.shape[:-1])
    if not scores.numel():
        return scores, lse
    most = scores.detach().amax(-1, keepdim=True)
    most = most.masked_fill(most == -torch.inf, 0.0)
    alpha = normaliser.alpha
    if isinstance(alpha, Tensor):
        alpha = alpha[:, None, None]
    total = partial(torch.sum, dim=-1, keepdim=True)
    return entmax(scores, most, alpha, total, scores.shape[-1]), lse


def _would_spread(call: AttentionCall, layout: DenseLayout) -> bool:
    """Return whether NaN or infinity of a node would reach targets that do not attend to it.

    In the matrix product, a pair without an edge has weight 0, and 0 times NaN is NaN. In compiled
    code and on a GPU nothing is read and the result is False. Gradients are not checked.
    """
    if layout.full or not can_read(call.query, call.key, call.value):
        return False
    if call.bias is not None and not _finite(call.bias, or_dropped=True):
        return True
    weight = call.score.weight if isinstance(call.score, Additive) else None
    others = (call.query, call.key, call.value, call.gain, weight)
    return not all(x is None or _finite(x) for x in others)


def _would_vanish(call: AttentionCall) -> bool:
    """Return whether PyTorch's fused kernel on a CPU could return 0 for scores of NaN."""
    nodes = call.query, call.key
    return can_read(*nodes) and not all(_finite(x) for x in nodes)


def _finite(term: EdgeTerm, *, or_dropped: bool = False) -> bool:
    """Return whether all values are finite; with ``or_dropped``, a bias may also be -inf."""
    x = (term.table if isinstance(term, TableBias) else term).detach()
    if x.is_meta or not x.numel():
        return True
    if or_dropped:
        return bool(x.amax() < torch.inf)
    return math.isfinite(x.sum(dtype=ACCUMULATORS.get(x.dtype)).item())


def _best_kernels(query: Tensor) -> AbstractContextManager[None]:
    """Return a context in which PyTorch prefers cuDNN's kernels, which are fastest from Hopper on.

    It does nothing if the user has disabled any of PyTorch's attention kernels.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    on = torch.backends.cuda
    all_on = on.flash_sdp_enabled() and on.mem_efficient_sdp_enabled() and on.math_sdp_enabled()
    if torch.version.hip or not (all_on and on.cudnn_sdp_enabled()):
        return nullcontext()
    if torch.cuda.get_device_capability(query.device) < HOPPER:
        return nullcontext()
    order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION]
    order += [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    context: AbstractContextManager[None] = sdpa_kernel(order, set_priority=True)
    return context


def _positive(query: Tensor, scale: float) -> tuple[Tensor, float]:
    """Return a query and a scale > 0 that give the same scores: PyTorch needs a positive scale."""
    if scale > 0:
        return query, scale
    return (-query, -scale) if scale < 0 else (query * 0.0, 1.0)


def _members(x: Tensor, padding: Padding | None, length: int, batch: torch.Size) -> Tensor:
    """Reshape ``[..., N, H, D]`` to ``[batch * blocks, H, length, D]`` for PyTorch's kernels."""
    # There are few views here, because in a small model each view takes as long as the computation.
    x = _pad(x, padding)
    if x.shape[:-3] != batch:
        x = x.expand(*batch, *x.shape[-3:])
    members = batch.numel() * (x.shape[-3] // length)
    return _shaped(x, (members, length, *x.shape[-2:])).transpose(1, 2)


def _shaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.shape == shape else x.reshape(shape)


def _pad(x: Tensor, padding: Padding | None) -> Tensor:
    """Pad the packed graphs: gather ``[..., N, H, D]`` to ``[..., blocks * length, H, D]``."""
    return x if padding is None else x.index_select(-3, padding.node)


def _unpad(x: Tensor, padding: Padding | None) -> Tensor:
    """Remove the padding: gather ``[..., blocks * length, H, D]`` to ``[..., N, H, D]``."""
    return x if padding is None else x.index_select(-3, padding.position)


def _pairs(key: Tensor) -> Tensor:
    return key.transpose(-2, -3)[..., None, :, :, :]


def _upper(layout: DenseLayout, device: torch.device) -> Tensor:
    return torch.ones(layout.rows, layout.columns, dtype=torch.bool, device=device).triu(1)


def _rows(x: Tensor, layout: DenseLayout) -> Tensor:
    return _blocks(x, layout.row_padding, layout.blocks, layout.rows)


def _columns(x: Tensor, layout: DenseLayout) -> Tensor:
    return _blocks(x, layout.column_padding, layout.blocks, layout.columns)


def _blocks(x: Tensor, padding: Padding | None, blocks: int, length: int) -> Tensor:
    """Pad and reshape ``[..., N, H, D]`` to ``[..., blocks, H, length, D]``."""
    x = _pad(x, padding)
    # Tensor.reshape is faster than Tensor.unflatten.
    split = x.reshape(*x.shape[:-3], blocks, length, *x.shape[-2:])
    return split.transpose(-2, -3)


def _nodes(x: Tensor, layout: DenseLayout) -> Tensor:
    """Reshape ``[..., blocks, H, rows, D]`` to ``[..., N_dst, H, D]``, without the padding."""
    return _unpad(x.transpose(-2, -3).flatten(-4, -3), layout.row_padding)


def _grid(term: EdgeTerm, layout: DenseLayout, heads: int, fill: float) -> Tensor:
    """Scatter a bias or gain ``[..., E, H]`` to a matrix ``[..., blocks, H, rows, columns]``."""
    edge = expand(term).movedim(-1, -2)  # [..., H or 1, E]
    if layout.slot is not None:
        empty = edge.new_full((*edge.shape[:-1], layout.num_pairs), fill)
        edge = empty.index_copy(-1, layout.slot, edge)
    grid: Tensor = edge.unflatten(-1, (layout.blocks, layout.rows, layout.columns))
    return grid.movedim(-4, -3).expand(*grid.shape[:-4], -1, heads, -1, -1)


def _edge_counts(layout: DenseLayout, like: Tensor) -> Tensor:
    """Return the adjacency matrix ``[blocks, 1, rows, columns]``, not in 16 bits."""
    shape = (layout.blocks, layout.rows, layout.columns)
    matrix = torch.ones(shape, dtype=wide(like).dtype, device=like.device)
    if layout.mask is not None:
        matrix = matrix * layout.mask
    return (matrix.tril() if layout.causal else matrix)[:, None]
