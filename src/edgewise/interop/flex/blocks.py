"""Attention with any ``score_mod``, computed for a few queries at a time.

Scores of the pairs in blocks that are not empty are products of matrices. The backward pass
computes them again, so memory does not grow with the number of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from edgewise._utils.ragged import ranges
from edgewise.attention.scores import Dot
from edgewise.engines.merge import softmax_with_lse
from edgewise.engines.reference import wide
from edgewise.interop.flex.masks import EMPTY, FULL, Mask
from edgewise.interop.flex.pairs import Indices, on_pairs
from edgewise.interop.flex.score_mods import ScoreMod

AT_ONCE = 1 << 24
"""Maximum number of scores that are in memory at once, unless one query has more."""

Outputs = tuple[Tensor, Tensor, Tensor]
"""Output ``[B, H, L, Ev]``, log-sum-exp and largest score ``[B, H, L]``."""


def attend_by_blocks(
    nodes: Sequence[Tensor], mask: Mask, score_mod: ScoreMod | None, score: Dot
) -> Outputs:
    """Return output, log-sum-exp and largest scores for query, key and value ``[B, H, N, D]``."""
    batch, heads = nodes[0].shape[:2]
    nodes = [x.repeat_interleave(heads // x.shape[1], 1).expand(batch, -1, -1, -1) for x in nodes]
    b, h = (torch.arange(size, device=mask.kinds.device) for size in (batch, heads))
    lines = []
    for row, members in enumerate(b.split(1) if mask.by_batch else [b]):
        line = []
        for column, member_heads in enumerate(h.split(1) if mask.by_head else [h]):
            of_group = [x[members][:, member_heads] for x in nodes]
            kinds = mask.kinds[row, column]
            group = _Group(mask, kinds, members, member_heads, score_mod, score)
            line.append(group.attend(*of_group))
        lines.append(_joined(line, 1))
    return _joined(lines, 0)


def _joined(outputs: Sequence[Outputs], axis: int) -> Outputs:
    out, lse, largest = (torch.cat(xs, axis) for xs in zip(*outputs, strict=True))
    return out, lse, largest


@dataclass(frozen=True, eq=False)
class _Group:
    """Batch indices ``b`` and heads ``h`` that have the same mask."""

    mask: Mask
    kinds: Tensor
    b: Tensor
    h: Tensor
    score_mod: ScoreMod | None
    score: Dot

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Outputs:
        rows, columns = self.mask.block
        outputs = [self._attend(query[:, :, :0], key[:, :, :0], value[:, :, :0], *[self.b[:0]] * 3)]
        for row, kinds in enumerate(self.kinds.cpu()):
            blocks = (kinds != EMPTY).nonzero()[:, 0]
            first = blocks * columns
            kv = ranges(first, (self.mask.keys - first).clamp(max=columns))
            is_full = (kinds == FULL)[kv // columns].to(query.device)
            key_rows, value_rows = _select(key, kv), _select(value, kv)
            kv = kv.to(query.device)
            step = max(AT_ONCE // max(query.shape[:2].numel() * kv.numel(), 1), 1)
            stop = min((row + 1) * rows, self.mask.queries)
            for start in range(row * rows, stop, step):
                q = torch.arange(start, min(start + step, stop), device=query.device)
                nodes = query[:, :, start : start + q.numel()], key_rows, value_rows
                outputs.append(
                    checkpoint(self._attend, *nodes, q, kv, is_full, use_reentrant=False)
                )
        return _joined(outputs, 2)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, *pairs: Tensor) -> Outputs:
        q, kv, is_full = pairs
        scores = wide(query) @ wide(key).transpose(-1, -2)
        scores = scores * self.score.scale_for(query.shape[-1])
        indices = Indices(self.b, self.h, q[None], kv[None])
        if self.score_mod is not None and scores.numel():
            modified = on_pairs(self.score_mod, indices, scores[:, :, None])
            scores = modified[:, :, 0].to(scores.dtype)
        if not bool(is_full.all()):
            first = indices._replace(b=self.b[:1], h=self.h[:1])
            allowed = is_full | on_pairs(self.mask.mask_mod, first)[:, :, 0]
            scores = scores.masked_fill(~allowed, -torch.inf)
        weights, lse = softmax_with_lse(scores, -1)
        largest = scores.detach().amax(-1) if kv.numel() else lse
        return (weights @ wide(value)).to(value.dtype), lse, largest


def _select(x: Tensor, index: Tensor) -> Tensor:
    """Return the nodes ``[B, H, C, D]`` of these indices; a view if they are consecutive."""
    if index.numel() and int(index[-1] - index[0]) == index.numel() - 1:
        return x[:, :, int(index[0]) : int(index[-1]) + 1]
    return x.index_select(2, index.to(x.device))
