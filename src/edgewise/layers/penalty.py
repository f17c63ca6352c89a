"""Penalties that a model adds to the training loss."""

from __future__ import annotations

from torch import Tensor, nn


class Penalised(nn.Module):
    """Module whose ``penalty`` is added to the training loss of each step.

    Reported losses exclude the penalty, so that losses of different models are comparable.
    """

    def penalty(self) -> Tensor:
        """Return the penalty of the current weights, a scalar."""
        raise NotImplementedError
