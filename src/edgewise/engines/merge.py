"""The merge law: attention over disjoint neighbourhoods, put together exactly."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.engines.costs import Work
from edgewise.interception import intercepted, is_intercepted


def merge_attention(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    r"""Attention over a disjoint union from the attention over its parts.

    With outputs :math:`o_p` and log-sum-exps :math:`\ell_p` of the parts,

    .. math:: \ell = \log \sum_p e^{\ell_p}, \qquad o = \sum_p e^{\ell_p - \ell}\, o_p .

    Args:
        parts: pairs of an output ``[..., N, H, D]`` and its log-sum-exp ``[..., N, H]``, which is
            -inf for a target that reads nothing in that part.

    Returns:
        The output and the log-sum-exp of the union.

    """
    if is_intercepted():
        out, lse = intercepted("merge_attention", _merge, parts)
        return out, lse
    return _merge(parts)


def _merge(parts: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    if len(parts) == 1:
        return parts[0]
    lse = torch.stack([part[1] for part in parts])
    weight, total = softmax_with_lse(lse, 0)
    out = sum(w[..., None] * o for w, (o, _) in zip(weight, parts, strict=True))
    assert isinstance(out, Tensor)
    return out.to(parts[0][0].dtype), total


def merge_work(parts: int, elements: int) -> Work:
    """What it takes to merge so many outputs with so many elements each."""
    return "merge", {"call": 1, "element": parts * elements}


def softmax_with_lse(scores: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Softmax and log-sum-exp along ``dim``; all -inf (nothing is read) gives 0 and -inf.

    Gradients are zero, and never NaN, where nothing is read.
    """
    most = scores.detach().amax(dim, keepdim=True) if scores.shape[dim] else _none_read(scores, dim)
    most = most.masked_fill(most == -torch.inf, 0.0)
    exponential = (scores - most).exp()
    total = exponential.sum(dim, keepdim=True)
    nothing = total == 0
    total = total.masked_fill(nothing, 1.0)
    lse = (total.log() + most).masked_fill(nothing, -torch.inf)
    return exponential / total, lse.squeeze(dim)


def _none_read(scores: Tensor, dim: int) -> Tensor:
    return scores.new_zeros(
        [1 if d == dim % scores.dim() else s for d, s in enumerate(scores.shape)]
    )
