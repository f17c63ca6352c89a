"""The feed-forward part of a Transformer layer: the same two-layer network at every node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from edgewise.errors import unknown_name

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "gelu_tanh": partial(nn.GELU, approximate="tanh"),
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
        act: a name of ``ACTIVATIONS``.
        dropout: after the non-linearity.
        bias: whether the maps have b.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        act: str = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        first, last = nn.Linear(width, hidden, bias=bias), nn.Linear(hidden, width, bias=bias)
        super().__init__(first, activation(act), nn.Dropout(dropout), last)

    def forward(self, x: Tensor) -> Tensor:
        first, act, dropout, last = self
        hidden = act(first(x))
        out: Tensor = last(dropout(hidden) if dropout.p else hidden)
        return out


class GatedFeedForward(nn.Module):
    r"""A feed-forward network with a gate, :math:`W_2 (\sigma(W_g x) \odot W_1 x)`, without biases.

    SwiGLU for ``silu``, GEGLU for ``gelu`` (Shazeer, GLU variants improve Transformer, 2020).

    Args:
        width: of input and output.
        hidden: between them; 8/3 as wide has as many weights as 4 times without a gate.
        act: σ.
        dropout: before the last map.
    """

    def __init__(self, width: int, hidden: int, *, act: str = "silu", dropout: float = 0.0) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.act, self.dropout = activation(act), nn.Dropout(dropout)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.dropout(self.act(self.gate(x)) * self.up(x)))
        return out
