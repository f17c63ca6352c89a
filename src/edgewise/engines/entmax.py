r"""α-entmax of scores that are divided into neighbourhoods, such as the edges of each target.

With ε = α - 1, the weight of score s_j in its neighbourhood is :math:`w_j = \exp L(s_j - c)`, where

.. math:: L(y) = \frac{\log(1 + \varepsilon y)}{\varepsilon}, \qquad L(y) = y \text{ for } ε = 0.

The weight is 0 where :math:`1 + \varepsilon y \le 0`. The threshold c is chosen so that the weights
sum to 1. This form includes softmax (α = 1) and is accurate near α = 1. The sum of the weights is
convex and decreases with c. Newton's method starts with the greatest score as c, where the sum is
at least 1, and increases c to the solution without overshooting.

With the slopes :math:`w'_j = w_j^{2 - α}` and the gradient g of the weights, the gradient of the
scores is :math:`w'_i (g_i - \sum_j w'_j g_j / \sum_j w'_j)` (Peters et al., 2019). The gradient of
α is that of Correia et al. (2019), in a form that is finite at α = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from edgewise._utils.torch_internals import in_functorch_transform, is_tracing

Total = Callable[[Tensor], Tensor]
"""Type of a function that sums over each neighbourhood.

Its result broadcasts against the scores.
"""

NEVER = -1e30
"""Finite number that replaces scores of -inf, because 0 times -inf is NaN."""
NEAR = 0.01
"""For abs(t) below this, quotients such as log(1 + t) / t are computed by a power series.

Dividing by a small t would be inaccurate.
"""
TERMS = 8
"""Number of terms of the power series."""


def entmax(scores: Tensor, most: Tensor, alpha: float | Tensor, total: Total, count: int) -> Tensor:
    """Return the α-entmax weights; they are 0 if all scores of a neighbourhood are -inf.

    ``most`` is the greatest score of each neighbourhood, or 0 if there is none above -inf. It,
    ``alpha`` and the sums that ``total`` returns broadcast against the scores. ``count`` is the
    size of the largest neighbourhood.
    """
    if is_tracing((scores,)) or in_functorch_transform():
        return _traced(scores, most, alpha, total, count)
    learned = alpha if isinstance(alpha, Tensor) else None
    weights: Tensor = _Entmax.apply(scores, learned, most.detach(), alpha, total, count)  # type: ignore[no-untyped-call]
    return weights


class _Entmax(torch.autograd.Function):
    """α-entmax with a gradient from the weights; second derivatives use :func:`_traced`."""

    @staticmethod
    def forward(  # noqa: PLR0917 - torch.autograd.Function passes positional arguments
        ctx: Any,
        scores: Tensor,
        learned: Tensor | None,
        most: Tensor,
        alpha: float | Tensor,
        total: Total,
        count: int,
    ) -> Tensor:
        gap = (scores - most).masked_fill(scores == -torch.inf, NEVER)
        power = alpha - 1
        threshold = _threshold(gap, power, total, count, looks=gap.device.type == "cpu")
        weights = _weights(gap - threshold, power)[0]
        ctx.save_for_backward(scores, learned, most, weights)
        ctx.alpha, ctx.total, ctx.count = alpha, total, count
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scores, learned, most, weights = ctx.saved_tensors
        alpha, total = ctx.alpha if learned is None else learned, ctx.total
        needs_scores, needs_alpha = ctx.needs_input_grad[:2]
        if torch.is_grad_enabled():
            again = _traced(scores, most, alpha, total, ctx.count)
            leaves = [x for x, need in ((scores, needs_scores), (learned, needs_alpha)) if need]
            grads = iter(torch.autograd.grad(again, leaves, grad, create_graph=True))
            of_scores = next(grads) if needs_scores else None
            return of_scores, next(grads) if needs_alpha else None, None, None, None, None
        read = weights > 0
        slopes = torch.where(read, weights.pow(2 - alpha), 0.0)
        mean = _divisor(total(slopes))
        of_scores = slopes * (grad - total(slopes * grad) / mean) if needs_scores else None
        of_alpha = None
        if needs_alpha:
            logs = torch.where(read, weights, 1.0).log()
            change = weights * _by_power(logs, alpha - 1)
            change = change - slopes * (total(change) / mean)
            of_alpha = (grad * change).sum_to_size(alpha.shape)
        return of_scores, of_alpha, None, None, None, None


def _threshold(
    gap: Tensor, power: float | Tensor, total: Total, count: int, *, looks: bool
) -> Tensor:
    """Return c - ``most`` for the threshold c, by Newton's method started at 0.

    The product of (sum of weights - 1) and the sum of slopes is at most count² at first. Each step
    divides it by at least 4, and the sum of slopes stays above 1. This bounds the number of steps.
    ``looks`` allows to stop at convergence; on a GPU each test would wait for the device.
    """
    tiny = torch.finfo(gap.dtype).eps
    steps = math.ceil(math.log(max(count, 2) ** 2 / tiny, 4))
    threshold: Tensor | None = None
    for _ in range(steps):
        weights, slopes = _weights(gap if threshold is None else gap - threshold, power)
        step = ((total(weights) - 1) / _divisor(total(slopes))).clamp(min=0)
        threshold = step if threshold is None else threshold + step
        if looks and not bool((step > 4 * tiny).any()):
            break
    assert threshold is not None
    return threshold


def _weights(y: Tensor, power: float | Tensor) -> tuple[Tensor, Tensor]:
    """Return exp L(y) and its derivative; y is score minus threshold, and ``power`` is α - 1."""
    t = y * power
    if isinstance(power, float) and power in (0.5, 1.0):
        left = (1 + t).clamp(min=0)
        return (left, (left > 0).to(y.dtype)) if power == 1 else (left * left, left)
    t = t.clamp(min=-1)
    if isinstance(power, Tensor):
        log = torch.where(power == 0, y, t.log1p() / torch.where(power == 0, 1.0, power))
    else:
        log = t.log1p() / power
    weights = log.exp()
    return weights, weights / (1 + t).clamp(min=torch.finfo(t.dtype).tiny)


def _by_power(logs: Tensor, power: float | Tensor) -> Tensor:
    r"""Return ∂L / ∂ε for given L: :math:`-L^2 (e^{-t} - 1 + t) / t^2` with t = ε L."""
    t = power * logs
    near = t.abs() < NEAR
    series = torch.zeros_like(t)
    for term in range(TERMS, 1, -1):
        series = 1 / math.factorial(term) - t * series
    far = torch.where(near, -1.0, t)
    return -logs.square() * torch.where(near, series, ((-far).expm1() + far) / far.square())


def _traced(
    scores: Tensor, most: Tensor, alpha: float | Tensor, total: Total, count: int
) -> Tensor:
    """Return the α-entmax weights by differentiable operations, for ``torch.func`` and tracing."""
    power = (alpha if isinstance(alpha, Tensor) else scores.new_full((), alpha)) - 1
    dropped = scores == -torch.inf
    gap = (scores - most.detach()).masked_fill(dropped, NEVER)
    with torch.no_grad():
        threshold = _threshold(gap.detach(), power.detach(), total, count, looks=False)
    # At the solution, a Newton step has length 0, but autograd gets the derivative of the threshold
    # from it. A second step makes the second derivative exact.
    for _ in range(2):
        weights, slopes = _smooth_weights(gap - threshold, dropped, power)
        mass = total(weights)
        threshold = threshold + (mass - mass.detach()) / _divisor(total(slopes))
    return _smooth_weights(gap - threshold, dropped, power)[0]


def _smooth_weights(y: Tensor, dropped: Tensor, power: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same as :func:`_weights`, by operations whose derivatives are all finite."""
    t = power * y
    off = dropped | (t <= -1)
    near = (t.abs() < NEAR) & ~dropped
    small = torch.where(near, t, 0.0)
    series = torch.zeros_like(small)
    for term in range(TERMS, 0, -1):
        series = 1 / term - small * series
    far = torch.where(near | off, -0.5, t)
    log = torch.where(near, y * series, far.log1p() / torch.where(power == 0, 1.0, power))
    weights = torch.where(off, 0.0, torch.where(off, 0.0, log).exp())
    return weights, weights / torch.where(off, 1.0, 1 + t)


def _divisor(slope: Tensor) -> Tensor:
    """Return the slope with 0 replaced by 1, as a divisor; empty neighbourhoods have slope 0."""
    return slope.masked_fill(slope == 0, 1.0)
