"""Dynamic convolution: lightweight convolution with kernels predicted from each token.

Formula: y = O conv(GLU(W x)), conv(x)_i = Σ_k softmax(F x_i)_k x_{i+k}; x = norm(x + y), then FFN
Graph: encoder ``window(K // 2)``; decoder ``causal() & window(K - 1)``; kernel size K per layer
Score: none; one logit per offset in the window, a linear map of the target token
Encoding: sinusoidal positions in encoder and decoder
Normalisation: softmax over the kernel, zero padding; layer norm after (default) or before sublayers
Update: residual connections around the convolution and around the feed-forward network
Paper: Wu et al., Pay less attention with lightweight and dynamic convolutions, 2019
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.models.arguments import model_factory
from edgewise.models.light_conv import LightConv


class PredictedTaps(nn.Module):
    """Linear map that predicts the kernel logits of each node from its features."""

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.shape = (kernel, heads)
        self.linear = nn.Linear(width, kernel * heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[..., N, K, H]`` of nodes ``[..., N, width]``."""
        taps: Tensor = self.linear(x)
        return taps.reshape(*x.shape[:-1], *self.shape)


class DynamicConv(LightConv):
    """Encoder-decoder with dynamic convolutions: :class:`LightConv` with predicted kernels.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.dynamic_conv(1000)
        >>> source, target = torch.randint(1000, (2, 10)), torch.randint(1000, (2, 8))
        >>> model(source, None, target).shape
        torch.Size([2, 8, 128])
    """

    name = "dynamic_conv"
    taps = PredictedTaps


dynamic_conv = model_factory(DynamicConv, depth=0)
