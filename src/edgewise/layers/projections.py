"""Linear maps of attention: one matrix for queries, keys and values, or one matrix per head."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from edgewise._utils.torch_internals import is_plain
from edgewise.layers.pruning import select


class JointLinear(nn.Linear):
    """Several linear maps of the same features, stored as one matrix, with concatenated outputs.

    One matrix product is faster than several. Each map is initialised like a separate linear layer.

    Args:
        in_width: feature size of the input.
        widths: output size of each linear map.
        bias: whether the linear maps have biases.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.JointLinear(16, [32, 32, 8])(torch.randn(10, 16)).shape
        torch.Size([10, 72])
    """

    def __init__(self, in_width: int, widths: Sequence[int], *, bias: bool = True) -> None:
        self.widths = tuple(widths)
        self.row_order: Tensor | None = None  # Of the rows, if processes divide them.
        super().__init__(in_width, sum(widths), bias=bias)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise each linear map separately, like ``torch.nn.Linear``."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        biases = [None] * len(self.widths) if self.bias is None else self.bias.split(self.widths)
        for weight, bias in zip(self.weights(), biases, strict=True):
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))
            if bias is not None:
                nn.init.uniform_(bias, -bound, bound)

    def keep_rows(self, rows: Sequence[Tensor]) -> None:
        """Keep only some output rows of each map, in place; ``rows`` has their indices per map."""
        starts = itertools.accumulate(self.widths, initial=0)
        index = torch.cat([map_rows + start for map_rows, start in zip(rows, starts, strict=False)])
        self.weight, self.bias = select(self.weight, index), select(self.bias, index)
        self.widths, self.out_features = tuple(map(len, rows)), len(index)

    def weights(self) -> tuple[Tensor, ...]:
        """Return the matrix ``[width, in_width]`` of each map, as views of the stored matrix."""
        weights: tuple[Tensor, ...] = self.weight.split(self.widths)
        return weights


def matrix_of(linear: nn.Module, in_width: int, like: Tensor) -> Tensor:
    """Return the matrix ``[out_width, in_width]`` of a linear module without bias.

    Anything but a plain ``torch.nn.Linear`` is called on the identity matrix, in the dtype of
    ``like``, so that hooks, wrappers such as LoRA, and quantised modules take effect.
    """
    if is_plain(linear, nn.Linear):
        weight: Tensor = linear.weight  # type: ignore[assignment]
        return weight
    columns: Tensor = linear(torch.eye(in_width, dtype=like.dtype, device=like.device))
    return columns.t()


def table_of(embedding: nn.Module, rows: int, index: Tensor | None = None) -> Tensor:
    """Return all rows of an embedding, or the rows ``index``; one with hooks, or of another class,
    is called for all rows.
    """
    if index is not None:
        selected: Tensor = embedding(index)
        return selected
    if is_plain(embedding, nn.Embedding):
        weight: Tensor = embedding.weight  # type: ignore[assignment]
        return weight
    device = next(embedding.parameters()).device
    table: Tensor = embedding(torch.arange(rows, device=device))
    return table


class LinearByHead(nn.Module):
    r"""Separate linear map for each of H parts of x, :math:`y = [W_1 x_1; \dots; W_H x_H] + b`.

    Args:
        heads: number of parts H.
        in_width: feature size of the input, a multiple of H.
        out_width: feature size of the output, a multiple of H.
        bias: whether there is a bias b.

    Example:
        >>> import torch
        >>> from edgewise import layers
        >>> layers.LinearByHead(4, 32, 8)(torch.randn(10, 32)).shape
        torch.Size([10, 8])
    """

    def __init__(self, heads: int, in_width: int, out_width: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, out_width // heads, in_width // heads))
        self.bias = nn.Parameter(torch.zeros(out_width)) if bias else None
        bound = math.sqrt(heads / in_width)  # Bound of nn.Linear, for the input size of one head.
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        head_inputs = x.unflatten(-1, (self.weight.shape[0], -1))
        out = torch.einsum("...hi,hoi->...ho", head_inputs, self.weight).flatten(-2)
        return out if self.bias is None else out + self.bias
