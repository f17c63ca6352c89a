"""The feed-forward part of a Transformer layer: the same two-layer network at every node."""

from __future__ import annotations

from torch import nn

from edgewise.errors import unknown_name

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
}


def activation(name: str) -> nn.Module:
    """The non-linearity of this name."""
    if name not in ACTIVATIONS:
        raise unknown_name("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


class FeedForward(nn.Sequential):
    r"""Two linear maps with a non-linearity between, :math:`W_2\,\sigma(W_1 x + b_1) + b_2`.

    Args:
        width: of input and output.
        hidden: between them, usually 2 to 4 times as wide.
        act: ``relu``, ``gelu``, ``silu``, ``elu`` or ``tanh``.
        dropout: after the non-linearity.
    """

    def __init__(self, width: int, hidden: int, *, act: str = "relu", dropout: float = 0.0) -> None:
        super().__init__(
            nn.Linear(width, hidden), activation(act), nn.Dropout(dropout), nn.Linear(hidden, width)
        )
