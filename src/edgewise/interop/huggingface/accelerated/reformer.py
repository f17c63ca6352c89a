"""Local and LSH attention of Reformer, with the buckets of the original module."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.reformer.modeling_reformer import (
    LocalSelfAttention,
    LocalSelfAttentionOutput,
    LSHSelfAttention,
    LSHSelfAttentionOutput,
)

from edgewise.attention.attend import attend
from edgewise.graphs import Graph
from edgewise.models.reformer import Chunks, Texts, attend_in_buckets, local_graph


class ChunkAttention:
    """Conditions and sizes that local and LSH attention have in common."""

    def _chunks(self: Any) -> Chunks:
        return Chunks(
            self.chunk_length, self.num_chunks_before, self.num_chunks_after, bool(self.is_decoder)
        )

    def _is_original(
        self: Any, x: Tensor, rounds: int, cache: Any, output_attentions: bool
    ) -> bool:
        """Return whether the original module computes the call.

        It computes weights, reads its cache, and attends to a chunk twice in texts of few chunks.
        """
        count = x.shape[1]
        has_past = cache is not None and len(cache) > self.layer_idx
        if output_attentions or has_past or count <= self.chunk_length:
            return True
        neighbours = self.num_chunks_before + 1 + self.num_chunks_after
        return bool(neighbours > rounds * (count // self.chunk_length))


class EdgewiseLocalSelfAttention(ChunkAttention, LocalSelfAttention):  # type: ignore[misc]
    """``LocalSelfAttention`` on Edgewise; the original computes texts padded on the left."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        past_buckets_states: Any = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        **_: Any,
    ) -> Any:
        """Return the output ``[B, T, width]``; that of padding is 0."""
        is_token = _tokens(attention_mask)
        if self._is_original(
            hidden_states, 1, past_buckets_states, output_attentions
        ) or not _is_padded_last(is_token):
            return super().forward(
                hidden_states,
                attention_mask,
                past_buckets_states=past_buckets_states,
                use_cache=use_cache,
                output_attentions=output_attentions,
            )
        size = self.num_attention_heads, self.attention_head_size
        maps = self.query, self.key, self.value
        nodes = (linear(hidden_states).unflatten(-1, size) for linear in maps)
        if is_token is None:
            query, key, value = nodes
            sizes: tuple[int, ...] | None = None
        else:
            query, key, value = (x[is_token] for x in nodes)
            sizes = tuple(is_token.sum(1).tolist())
        count = hidden_states.shape[1]
        graph = chunk_graph(self._chunks(), count, sizes, hidden_states.device)
        dropout = self.dropout if self.training else 0.0
        out = attend(query, key, value, graph, dropout=dropout, layout="NHD").flatten(-2)
        if is_token is not None:
            out = _with_padding(out, is_token)
        return LocalSelfAttentionOutput(hidden_states=out, attention_probs=())


class EdgewiseLSHSelfAttention(ChunkAttention, LSHSelfAttention):  # type: ignore[misc]
    """``LSHSelfAttention`` on Edgewise."""

    def forward(  # noqa: PLR0917 - the signature of transformers
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        num_hashes: int | None = None,
        buckets: Tensor | None = None,
        past_buckets_states: Any = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        **_: Any,
    ) -> Any:
        """Return the output ``[B, T, width]``, where that of padding is 0, and the buckets."""
        rounds = self.num_hashes if num_hashes is None else num_hashes
        if self._is_original(hidden_states, rounds, past_buckets_states, output_attentions):
            return super().forward(
                hidden_states,
                attention_mask,
                num_hashes,
                buckets=buckets,
                past_buckets_states=past_buckets_states,
                use_cache=use_cache,
                output_attentions=output_attentions,
            )
        members, count = hidden_states.shape[:2]
        heads = self.num_attention_heads
        query = self.query_key(hidden_states).unflatten(-1, (heads, -1))  # [B, T, H, D]
        value = self.value(hidden_states).unflatten(-1, (heads, -1))
        if self.num_buckets is None:
            self._set_num_buckets(count)
        if buckets is None:
            # The backward pass repeats the forward pass with these buckets. Dropout, which follows,
            # must then sample the same numbers, although no hash functions are sampled.
            with torch.random.fork_rng():
                buckets = self._hash_vectors(query.transpose(1, 2), rounds, attention_mask)
        buckets = buckets.view(members, heads, rounds, count)
        is_token = _tokens(attention_mask)
        if is_token is None:
            is_token = torch.ones(members, count, dtype=torch.bool, device=query.device)
        # Heads first, and contiguous: [H, N, D] and [rounds, H, N] of the N tokens of all texts.
        bucket = buckets.permute(2, 1, 0, 3)[:, :, is_token]
        query, value = (x[is_token].transpose(0, 1).contiguous() for x in (query, value))
        # The product with √D in the norm also scales the scores by 1 / √D.
        key = F.rms_norm(query, (query.shape[-1],), eps=1e-6)
        out = attend_in_buckets(
            query,
            key,
            value,
            bucket,
            texts=Texts([count] * members, is_token.sum(1).tolist(), packed=True),
            chunks=self._chunks(),
            dropout=self.dropout if self.training else 0.0,
        )
        out = _with_padding(out.transpose(0, 1).flatten(-2), is_token)
        return LSHSelfAttentionOutput(hidden_states=out, attention_probs=(), buckets=buckets)


def _tokens(attention_mask: Tensor | None) -> Tensor | None:
    """Return the mask of tokens ``[B, T]``, or None without padding."""
    if attention_mask is None or bool(attention_mask.all()):
        return None
    return attention_mask.bool()


def _is_padded_last(is_token: Tensor | None) -> bool:
    return is_token is None or bool((is_token[:, 1:] <= is_token[:, :-1]).all())


def _with_padding(out: Tensor, is_token: Tensor) -> Tensor:
    """Return outputs ``[B, T, width]`` from those of tokens ``[N, width]``."""
    padded = out.new_zeros(*is_token.shape, out.shape[-1])
    return padded.masked_scatter(is_token[..., None], out)


@lru_cache(maxsize=16)
def chunk_graph(
    chunks: Chunks, count: int, sizes: tuple[int, ...] | None, device: torch.device
) -> Graph:
    """Return the graph of a text of ``count`` tokens, or of packed texts padded to this length."""
    if sizes is None:
        texts = Texts([count], [count], packed=False)
        return local_graph(texts, chunks).bind(count).to(device)
    texts = Texts([count] * len(sizes), list(sizes), packed=True)
    return local_graph(texts, chunks).bind(sum(sizes)).to(device)
