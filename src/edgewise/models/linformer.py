"""Linformer: attention to k learned linear combinations of all keys and values.

Formula: o_i = attend(Q x_i, E K x, F V x); E and F have k rows and one column per token
Graph: complete bipartite, from k projected rows to n tokens
Score: ``Dot`` (scaled dot product); each head projects all features
Encoding: learned absolute positions
Normalisation: softmax over the k rows; layer norm after each sublayer
Update: residual connections around attention and around the feed-forward network (GELU)
Paper: Wang et al., Linformer: self-attention with linear complexity, 2020
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from edgewise import attend
from edgewise._utils.arguments import check_choice, check_divides
from edgewise._utils.errors import ArgumentError
from edgewise.encodings import Learned
from edgewise.graphs import Pattern, complete
from edgewise.layers import (
    AttentionBlock,
    FeedForward,
    GraphLayer,
    LanguageModelHead,
    TextEmbedding,
    TextModel,
    init_normal,
)
from edgewise.layers.projections import JointLinear
from edgewise.layers.single_text import SingleTextBackbone
from edgewise.layers.text import SequenceBatch
from edgewise.layers.transformer import unbind_qkv
from edgewise.models.text import TextConfig, text_model

Sharing = Literal["heads", "key_values", "layers"]


@dataclass(frozen=True, kw_only=True)
class LinformerConfig(TextConfig):
    """Arguments of :func:`linformer`.

    Args:
        rank: number of rows k to which keys and values are projected.
        sharing: "heads": one E and one F per layer; "key_values": one matrix per layer, E = F;
            "layers": one matrix for all layers.
        max_length: max length of a text in tokens; also the number of columns of E and F.
    """

    rank: int = 128
    sharing: Sharing = "heads"
    max_length: int = 512
    act: str = "gelu"


@text_model(LinformerConfig, depth=0)
def linformer(config: LinformerConfig) -> TextModel:
    """Build a Linformer encoder with a masked-language-model head.

    Example:
        >>> import torch
        >>> from edgewise import models
        >>> model = models.linformer(1000, rank=32)
        >>> model(torch.randint(1000, (2, 10))).shape
        torch.Size([2, 10, 128])
    """
    width, dropout, max_length = config.width, config.dropout, config.max_length
    rank, sharing = config.rank, config.sharing
    check_choice("sharing", sharing, get_args(Sharing))
    layers = [
        AttentionBlock(  # norm(x + attention(x)), then norm(x + FFN(x))
            LinformerAttention(width, config.heads, rank, max_length, sharing, dropout=dropout),
            FeedForward(width, config.ffn_dim, act=config.act, dropout=dropout),
            width,
            dropout=dropout,
        )
        for _ in range(config.depth)
    ]
    shared = new_projection(rank, max_length) if sharing == "layers" else None
    backbone = LinformerBackbone(layers, max_length, shared)
    embedding = TextEmbedding(
        config.vocab_size,
        width,
        positions=Learned(max_length, width),
        norm=nn.LayerNorm(width),
        dropout=dropout,
    )
    head = LanguageModelHead(config.vocab_size, width)
    return init_normal(TextModel(embedding, backbone, head))


def new_projection(rank: int, max_length: int) -> nn.Parameter:
    """Return a matrix E or F, ``[rank, max_length]``, with entries of variance 1 / max_length."""
    return nn.Parameter(torch.randn(rank, max_length) * max_length**-0.5)


class LinformerAttention(GraphLayer):
    r"""Attention to k linear combinations of the keys and values of all tokens.

    .. math:: \mathrm{head} = \mathrm{softmax}\big(Q (E K)^\top / \sqrt D\big)\, F V

    A text of T tokens uses the first T columns of E and F, as if it were padded with zeros.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        rank: int,
        max_length: int,
        sharing: Sharing = "heads",
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_divides("heads", heads, width, "the width", "change heads or width")
        self.heads, self.dropout = heads, dropout
        self.qkv = JointLinear(width, (width, width, width))
        self.output = nn.Linear(width, width)
        has_e, has_f = sharing != "layers", sharing == "heads"
        self.of_keys = new_projection(rank, max_length) if has_e else None  # E
        self.of_values = new_projection(rank, max_length) if has_f else None  # F

    def forward(
        self,
        x: Tensor,
        graph: Pattern,
        *,
        real: Tensor | None = None,
        shared: Tensor | None = None,
    ) -> Tensor:
        """Return features ``[B, T, width]`` from x of the same shape."""
        query, key, value = unbind_qkv(self.qkv(x), self.heads)
        if real is not None:
            key, value = (rows * real[..., None, None].to(x) for rows in (key, value))
        of_keys = shared if self.of_keys is None else self.of_keys
        assert of_keys is not None
        of_values = of_keys if self.of_values is None else self.of_values
        tokens = x.shape[-2]
        key = torch.einsum("kt,bthd->bkhd", of_keys[:, :tokens], key)
        value = torch.einsum("kt,bthd->bkhd", of_values[:, :tokens], value)
        dropout = self.dropout if self.training else 0.0
        out = attend(query, key, value, graph, dropout=dropout, layout="NHD")
        projected: Tensor = self.output(out.flatten(-2))
        return projected


class LinformerBackbone(SingleTextBackbone):
    """Stack of Linformer layers over padded texts."""

    name = "linformer"

    def __init__(
        self, layers: Sequence[nn.Module], max_length: int, shared: nn.Parameter | None = None
    ) -> None:
        super().__init__()
        self.layers, self.length, self.shared = nn.ModuleList(layers), max_length, shared

    def run(self, x: Tensor, sequences: SequenceBatch, _graph: Pattern | None) -> Tensor:
        rows, real, back = sequences.right_padded(x)
        if rows.shape[-2] > self.length:
            raise ArgumentError(
                "x",
                expected=f"at most {self.length} tokens per text, the model's max_length",
                got=f"{rows.shape[-2]} tokens",
                remedy="build the model with a larger max_length",
            )
        for layer in self.layers:
            rows = layer(rows, complete(), real=real, shared=self.shared)
        return back(rows)
