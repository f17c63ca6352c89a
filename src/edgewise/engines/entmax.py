r"""α-entmax over neighbourhoods of any form, of operations that PyTorch differentiates twice.

With ε = α - 1 the weights are written as :math:`w_j = \exp L(s_j - c)` where

.. math:: L(y) = \frac{\log(1 + \varepsilon y)}{\varepsilon}, \qquad L(y) = y \text{ for } ε = 0,

and 0 where :math:`1 + \varepsilon y \le 0`. So softmax is no special case, and the numbers are as
good near it. The threshold c makes them sum to 1: their sum falls with c and is convex, so that
Newton's steps from the greatest score on rise to it and never pass it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from edgewise.engines.native.operator import transformed, watched

Total = Callable[[Tensor], Tensor]
"""The sum over each neighbourhood, in a shape that broadcasts against the scores."""

NEAR = 0.01
"""Below this log(1 + t) is a series: its derivative by ε would lose digits otherwise."""
TERMS = 8


def entmax(scores: Tensor, most: Tensor, alpha: float | Tensor, total: Total, count: int) -> Tensor:
    """Weights of the shape of the scores; where all of a neighbourhood are -inf they are 0.

    Args:
        scores: s, -inf where nothing is read.
        most: the greatest score of each neighbourhood, in a shape that broadcasts; 0 where all are
            -inf or there are none.
        alpha: α, which broadcasts against the scores.
        total: see ``Total``.
        count: the most scores that a neighbourhood may have.
    """
    given = alpha if isinstance(alpha, Tensor) else scores.new_tensor(alpha)
    power = given - 1
    dropped = scores == -torch.inf
    gap = (scores - most.detach()).masked_fill(dropped, 0.0)
    with torch.no_grad():
        threshold = _threshold(gap.detach(), dropped, power.detach(), total, count)
    # A step whose length is 0 carries the derivative of the threshold; a second one makes the
    # second derivative exact.
    for _ in range(2 if torch.is_grad_enabled() or transformed() else 0):
        weights, slopes = _weights(gap - threshold, dropped, power)
        mass = total(weights)
        threshold = threshold + (mass - mass.detach()) / _divisor(total(slopes))
    return _weights(gap - threshold, dropped, power)[0]


def _threshold(gap: Tensor, dropped: Tensor, power: Tensor, total: Total, count: int) -> Tensor:
    """C - most, by Newton's steps from 0 on.

    Each divides the product of (sum - 1) and slope, at first at most count², by 4 at least, and
    the slope stays above 1: so many steps are enough for any scores. Few are needed.
    """
    tiny = torch.finfo(gap.dtype).eps
    steps = math.ceil(math.log(max(count, 2) ** 2 / tiny, 4))
    looks = not (watched((gap,)) or transformed())
    threshold = torch.zeros_like(total(gap))
    for _ in range(steps):
        weights, slopes = _weights(gap - threshold, dropped, power)
        step = (total(weights) - 1) / _divisor(total(slopes))
        threshold = threshold + step.clamp(min=0)
        if looks and not bool((step > 4 * tiny).any()):
            break
    return threshold


def _weights(y: Tensor, dropped: Tensor, power: Tensor) -> tuple[Tensor, Tensor]:
    """Exp L(y) and its derivative by y; in each branch numbers that are used elsewhere are safe."""
    t = power * y
    off = dropped | (t <= -1)
    near = t.abs() < NEAR
    small = torch.where(near, t, 0.0)
    series = torch.zeros_like(small)
    for term in range(TERMS, 0, -1):
        series = 1 / term - small * series
    far = torch.where(near | off, -0.5, t)
    log = torch.where(near, y * series, far.log1p() / torch.where(power == 0, 1.0, power))
    weights = torch.where(off, 0.0, torch.where(off, 0.0, log).exp())
    return weights, weights / torch.where(off, 1.0, 1 + t)


def _divisor(slope: Tensor) -> Tensor:
    """1 where there is nothing to divide, as nothing is read."""
    return slope.masked_fill(slope == 0, 1.0)
