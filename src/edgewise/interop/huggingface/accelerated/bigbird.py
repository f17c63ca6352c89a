"""Block-sparse attention of BigBird, with the random blocks of the original module."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.big_bird.modeling_big_bird import (
    BigBirdAttention,
    BigBirdBlockSparseAttention,
    BigBirdSelfAttention,
)

from edgewise.interop.huggingface.accelerated.full import EdgewiseBigBirdSelfAttention
from edgewise.interop.huggingface.attention import collects_weights
from edgewise.models.bigbird import BlockSparse, attend_to_blocks, block_graphs

cached_graphs = lru_cache(maxsize=32)(block_graphs)


class EdgewiseBigBirdBlockSparseAttention(BigBirdBlockSparseAttention):  # type: ignore[misc]
    """``BigBirdBlockSparseAttention`` on Edgewise.

    Weights, and texts with padding before or between tokens, are computed by the original module.
    """

    def forward(  # noqa: PLR0917 - the signature of transformers
        self,
        hidden_states: Tensor,
        band_mask: Tensor | None = None,
        from_mask: Tensor | None = None,
        to_mask: Tensor | None = None,
        from_blocked_mask: Tensor | None = None,
        to_blocked_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output ``[B, T, width]``; that of padding is 0."""
        assert from_blocked_mask is not None
        count = hidden_states.shape[1]
        is_token = from_blocked_mask.flatten(1) > 0
        sizes = is_token.sum(1)
        is_last = is_token == (torch.arange(count, device=sizes.device) < sizes[:, None])
        if collects_weights() or not is_last.all():
            masks = band_mask, from_mask, to_mask, from_blocked_mask, to_blocked_mask
            original: tuple[Tensor, Tensor] = super().forward(hidden_states, *masks, **kwargs)
            return original
        heads = self.num_attention_heads
        pattern = BlockSparse(
            self.block_size, self.num_random_blocks, heads, self.seed, self.max_seqlen
        )
        if not self.training:  # In evaluation, every random block is the first block.
            pattern = BlockSparse(self.block_size, self.num_random_blocks, 1, None, self.max_seqlen)
        has_padding = not bool(is_token.all())
        texts = tuple((count, size) for size in sizes.tolist()) if has_padding else None
        graphs = [
            (graph.to(hidden_states.device), times)
            for graph, times in cached_graphs(pattern, count, texts)
        ]
        query, key, value = (
            linear(hidden_states).unflatten(-1, (heads, self.attention_head_size))
            for linear in (self.query, self.key, self.value)
        )
        if not has_padding:
            return attend_to_blocks(query, key, value, graphs[0][0], graphs[1:]).flatten(-2), None
        query, key, value = (x[is_token] for x in (query, key, value))
        out = attend_to_blocks(query, key, value, graphs[0][0], graphs[1:]).flatten(-2)
        padded = out.new_zeros(*is_token.shape, out.shape[-1])
        return padded.masked_scatter(is_token[..., None], out), None


class EdgewiseBigBirdAttention(BigBirdAttention):  # type: ignore[misc]
    """``BigBirdAttention`` whose attention stays Edgewise's when its type changes."""

    def set_attention_type(self, value: str, layer_idx: int | None = None) -> None:
        """Set the attention type, as the model does for texts of few blocks."""
        super().set_attention_type(value, layer_idx)
        self.self.__class__ = KINDS.get(type(self.self), type(self.self))


KINDS: dict[type[nn.Module], type[nn.Module]] = {
    BigBirdAttention: EdgewiseBigBirdAttention,
    BigBirdSelfAttention: EdgewiseBigBirdSelfAttention,
    BigBirdBlockSparseAttention: EdgewiseBigBirdBlockSparseAttention,
}
