"""Exact merge of attention outputs that were computed on graphs without common edges."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from edgewise.attention.hooks import intercepted, is_intercepted
from edgewise.engines.costs import Work


def merge_attention(outputs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    r"""Merge attention outputs on several graphs into the output on their union.

    The graphs must not have common edges. With the output :math:`o_p` and the log-sum-exp
    :math:`\ell_p` of the scores on each graph p, the results are

    .. math:: \ell = \log \sum_p e^{\ell_p}, \qquad o = \sum_p e^{\ell_p - \ell}\, o_p .

    Args:
        outputs: output ``[..., N, H, D]`` and log-sum-exp ``[..., N, H]`` for each graph. The
            log-sum-exp is -inf for targets without sources in that graph.

    Returns:
        Output and log-sum-exp on the union of the graphs.

    Example:
        >>> import torch, edgewise
        >>> query = key = value = torch.randn(10, 4, 8)  # nodes, heads, width of a head
        >>> complete, near = edgewise.graphs.complete(), edgewise.graphs.window(1)
        >>> disjoint = near, complete - near
        >>> outputs = [edgewise.attend_with_lse(query, key, value, graph) for graph in disjoint]
        >>> out, lse = edgewise.merge_attention(outputs)
        >>> expected = edgewise.attend(query, key, value, complete)
        >>> torch.allclose(out, expected, atol=1e-6)
        True
    """
    if is_intercepted():
        out, lse = intercepted("merge_attention", _merge, outputs)
        return out, lse
    return _merge(outputs)


def _merge(outputs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    if len(outputs) == 1:
        return outputs[0]
    weights, lse = softmax_with_lse(torch.stack([lse for _, lse in outputs]), 0)
    merged = sum(w[..., None] * out for w, (out, _) in zip(weights, outputs, strict=True))
    assert isinstance(merged, Tensor)
    return merged.to(outputs[0][0].dtype), lse


def merge_work(count: int, elements: int) -> Work:
    """Return the work of merging ``count`` outputs of this number of elements each."""
    return "merge", {"call": 1, "element": count * elements}


def softmax_with_lse(scores: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Return the softmax and the log-sum-exp along ``dim``; 0 and -inf if all scores are -inf."""
    most = scores.detach().amax(dim, keepdim=True) if scores.shape[dim] else _zeros(scores, dim)
    most = most.masked_fill(most == -torch.inf, 0.0)
    exponential = (scores - most).exp()
    total = exponential.sum(dim, keepdim=True)
    nothing = total == 0
    total = total.masked_fill(nothing, 1.0)
    lse = (total.log() + most).masked_fill(nothing, -torch.inf)
    return exponential / total, lse.squeeze(dim)


def _zeros(scores: Tensor, dim: int) -> Tensor:
    return scores.new_zeros(
        [1 if d == dim % scores.dim() else s for d, s in enumerate(scores.shape)]
    )
