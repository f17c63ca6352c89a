"""Packed sequences on a GPU, computed by PyTorch's ``torch.nn.attention.varlen`` (2.10 or later).

For full, causal or sliding-window attention within each sequence, the FlashAttention kernels of
this module need neither a mask nor padding, only the start of each sequence. They support only
16-bit inputs and have no gradient of the log-sum-exp.
"""

from __future__ import annotations

from functools import cache
from importlib import util
from typing import NamedTuple

import torch
from torch import Tensor

from edgewise._utils.ragged import segment_index
from edgewise.engines.call import Problem

MOST_WIDTH = 256
STEP = 8
"""The width of a head must be a multiple of this number."""
AMPERE = (8, 0)
"""Minimum compute capability of the GPU."""


class Sequences(NamedTuple):
    """Packed sequences with full or sliding-window attention within each sequence."""

    # [sequences + 1], first target and first source of each sequence, then their total number.
    targets: Tensor
    sources: Tensor
    most_targets: int
    most_sources: int
    window: tuple[int, int]  # Sources before and after a target's position; -1 means all.


def sequences_of(start: Tensor, stop: Tensor, targets: Tensor, sources: Tensor) -> Sequences | None:
    """Return packed sequences for targets with one range of sources each, or ``None``.

    It is ``None`` if attention within them is neither full nor the same sliding window everywhere.
    """
    if not start.numel():
        return None
    member = segment_index(targets, start.numel())
    end, target_end = sources.cumsum(0), targets.cumsum(0)
    low, high = (end - sources)[member], end[member]
    longest = int(sources.max())
    bounds = [torch.cat([x.new_zeros(1), x]).int() for x in (target_end, end)]
    full_attention = Sequences(bounds[0], bounds[1], int(targets.max()), longest, (-1, -1))
    if bool(((start == low) & (stop == high)).all()):
        return full_attention
    if not targets.equal(sources):
        return None
    position = torch.arange(start.numel(), device=start.device)
    num_before, num_after = int((position - start).max()), int((stop - 1 - position).max())
    ends = torch.maximum(low, position - num_before), torch.minimum(high, position + num_after + 1)
    if min(num_before, num_after) < 0 or not (start.equal(ends[0]) and stop.equal(ends[1])):
        return None
    window = (
        num_before if num_before < longest - 1 else -1,
        num_after if num_after < longest - 1 else -1,
    )
    return full_attention._replace(window=window)


@cache
def there() -> bool:
    """Return whether the installed PyTorch has the module ``torch.nn.attention.varlen``."""
    return util.find_spec("torch.nn.attention.varlen") is not None


def serves(problem: Problem) -> bool:
    """Return whether variable-length attention can compute this call on packed sequences."""
    return problem.width == problem.value_width and _fits(
        problem.device, problem.dtype, problem.width
    )


def takes(query: Tensor, value: Tensor) -> bool:
    """Return whether variable-length attention supports the dtype and widths of these tensors."""
    width = query.shape[-1]
    return width == value.shape[-1] and _fits(query.device, query.dtype, width)


def _fits(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    wide = width % STEP == 0 and width <= MOST_WIDTH
    return device.type == "cuda" and dtype.itemsize == 2 and wide and there() and _recent(device)


@cache
def _recent(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device) >= AMPERE


def attend(query: Tensor, key: Tensor, value: Tensor, by: Sequences, scale: float) -> Tensor:
    """Return the attention output for query, key and value ``[B, N, H, D]`` or ``[N, H, D]``.

    Args:
        query: query of each node.
        key: key of each node.
        value: value of each node.
        by: division of the N nodes into sequences, the same for each example of the batch.
        scale: factor of the scores.
    """
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
    """Return the bounds ``[S + 1]`` of the sequences in a batch of ``members`` equal examples."""
    ahead = torch.arange(members, dtype=torch.int32, device=bounds.device)[:, None] * bounds[-1]
    return torch.cat([(bounds[:-1] + ahead).flatten(), bounds[-1:] * members])
