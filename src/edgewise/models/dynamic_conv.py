"""Dynamic convolution: lightweight convolution with kernels predicted from each token.

Formula: y = O conv(GLU(W x)), conv(x)_i = Σ_k softmax(F x_i)_k x_{i+k}; x = norm(x + y), then FFN
Graph: ``window(K // 2)``; decoder ``causal() & window(K - 1)``; kernel size K per layer
Score: none; one logit per offset in the window, a linear map of the target token
Encoding: sinusoidal positions in encoder and decoder
Normalisation: softmax over the kernel, zero padding; layer norm after or before each sublayer
Update: residual connection, then a feed-forward network with its own
Paper: Wu et al., Pay less attention with lightweight and dynamic convolutions, 2019
"""

from __future__ import annotations

from torch import Tensor, nn

from edgewise.arguments import checked
from edgewise.layers import EncoderDecoderModel
from edgewise.layers.transformer import Order
from edgewise.models.light_conv import with_convolutions


@checked(depth=0)
def dynamic_conv(
    vocab_size: int,
    *,
    target_vocab_size: int | None = None,
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    kernels: tuple[int, ...] = (3, 7, 15, 31),
    ffn_dim: int = 512,
    dropout: float = 0.1,
    act: str = "relu",
    order: Order = "post",
) -> EncoderDecoderModel:
    """Build an encoder-decoder with dynamic convolutions in place of self-attention.

    ``model.logits(states)`` gives the logits of the next token at each position. The decoder
    attends to the encoder as the Transformer's does.

    Args:
        vocab_size: vocab size: number of token ids.
        target_vocab_size: vocab size of the target text (None = one vocabulary for both texts).
        width: hidden size.
        depth: number of layers, in the encoder and in the decoder.
        heads: number of convolution heads: channels of one head share a kernel.
        kernels: kernel size of each layer, odd; further layers use the last one.
        ffn_dim: FFN dimension: hidden size of the feed-forward networks.
        dropout: dropout probability.
        act: activation function of the feed-forward networks, by name.
        order: position of the norms: "post" after each sublayer, "pre" before it.
    """
    return with_convolutions(
        "dynamic_conv",
        PredictedTaps,
        vocab_size,
        target_vocab_size=target_vocab_size,
        width=width,
        depth=depth,
        heads=heads,
        kernels=kernels,
        ffn_dim=ffn_dim,
        dropout=dropout,
        act=act,
        order=order,
    )


class PredictedTaps(nn.Module):
    """Kernel logits predicted from each node by a linear map.

    Args:
        width: hidden size.
        heads: number of heads H.
        kernel: kernel size K.
    """

    def __init__(self, width: int, heads: int, kernel: int) -> None:
        super().__init__()
        self.shape = (kernel, heads)
        self.linear = nn.Linear(width, kernel * heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[..., N, K, H]`` of nodes ``[..., N, width]``."""
        taps: Tensor = self.linear(x)
        return taps.reshape(*x.shape[:-1], *self.shape)
