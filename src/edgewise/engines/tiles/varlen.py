"""Packed sequences on a GPU: PyTorch's attention over sequences of varying lengths.

Where all sequences are read whole, causally or in a window, FlashAttention's kernels need no mask
and no padding: they are told where each sequence begins (``torch.nn.attention.varlen``, from
PyTorch 2.10 on). They compute in 16 bits, and give no gradient of a log-sum-exp.
"""

from __future__ import annotations

from functools import cache
from importlib import util
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise.engines.call import Problem
from edgewise.ragged import segment_index

MOST_WIDTH = 256
STEP = 8
"""A head's width is a multiple of this."""
AMPERE = (8, 0)


class Sequences(NamedTuple):
    """Where packed sequences begin, and what each position reads of its own.

    Attributes:
        targets, sources: ``[sequences + 1]``, int32; where each begins, and the last one ends.
        most_targets, most_sources: the longest.
        window: how many sources before and after its own place a target reads; -1: all.

    """

    targets: Tensor
    sources: Tensor
    most_targets: int
    most_sources: int
    window: tuple[int, int]


def sequences_of(start: Tensor, stop: Tensor, targets: Tensor, sources: Tensor) -> Sequences | None:
    """Runs, one a target, as sequences of these sizes; ``None`` where they are of another form."""
    if not start.numel():
        return None
    member = segment_index(targets, start.numel())
    end, target_end = sources.cumsum(0), targets.cumsum(0)
    low, high = (end - sources)[member], end[member]
    longest = int(sources.max())
    bounds = [torch.cat([x.new_zeros(1), x]).int() for x in (target_end, end)]
    whole = Sequences(bounds[0], bounds[1], int(targets.max()), longest, (-1, -1))
    if bool(((start == low) & (stop == high)).all()):
        return whole
    if not targets.equal(sources):
        return None
    own = torch.arange(start.numel(), device=start.device)
    before, after = int((own - start).max()), int((stop - 1 - own).max())
    ends = torch.maximum(low, own - before), torch.minimum(high, own + after + 1)
    if min(before, after) < 0 or not (start.equal(ends[0]) and stop.equal(ends[1])):
        return None
    window = before if before < longest - 1 else -1, after if after < longest - 1 else -1
    return whole._replace(window=window)


@cache
def there() -> bool:
    """Whether this PyTorch has attention over sequences of varying lengths."""
    return util.find_spec("torch.nn.attention.varlen") is not None


def serves(problem: Problem) -> bool:
    """Whether that attention serves a problem that is one of sequences."""
    return problem.width == problem.value_width and _fits(
        problem.device, problem.dtype, problem.width
    )


def takes(query: Tensor, value: Tensor) -> bool:
    """Whether that attention serves these tensors."""
    width = query.shape[-1]
    return width == value.shape[-1] and _fits(query.device, query.dtype, width)


def _fits(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    wide = width % STEP == 0 and width <= MOST_WIDTH
    return device.type == "cuda" and dtype.itemsize == 2 and wide and there() and _recent(device)


@cache
def _recent(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= AMPERE


def attend(query: Tensor, key: Tensor, value: Tensor, by: Sequences, scale: float) -> Tensor:
    """Output of ``[B, N, H, D]`` or ``[N, H, D]``; each member of a batch has all sequences."""
    from torch.nn.attention.varlen import varlen_attn

    members = query.shape[0] if query.dim() == 4 else 1
    targets, sources = by.targets, by.sources
    if members > 1:
        targets, sources = _repeated(targets, members), _repeated(sources, members)
    nodes = [x.flatten(0, -3) if x.dim() == 4 else x for x in (query, key, value)]
    out = varlen_attn(
        nodes[0],
        nodes[1],
        nodes[2],
        targets,
        sources,
        by.most_targets,
        by.most_sources,
        scale=scale,
        window_size=by.window,
    )
    assert isinstance(out, Tensor)
    return out.view(*query.shape[:-1], value.shape[-1])


def _repeated(bounds: Tensor, members: int) -> Tensor:
    """Where sequences begin if so many copies of them follow one another."""
    ahead = torch.arange(members, dtype=torch.int32, device=bounds.device)[:, None] * bounds[-1]
    return torch.cat([(bounds[:-1] + ahead).flatten(), bounds[-1:] * members])
