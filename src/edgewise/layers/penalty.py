"""Penalties: what a model adds to the loss of its task in training."""

from __future__ import annotations

from torch import Tensor, nn


class Penalised(nn.Module):
    """A module whose :meth:`penalty` training adds to the loss of a step.

    It is no part of the losses that are reported, so that these can be compared between models.
    """

    def penalty(self) -> Tensor:
        """A scalar, of the weights as they are."""
        raise NotImplementedError
