"""Attention of Longformer, and of the encoder of LED, on graphs of windows and global tokens."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.models.led.modeling_led import LEDEncoderSelfAttention
from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

from edgewise._utils.torch_internals import is_plain
from edgewise.attention.attend import attend
from edgewise.attention.hooks import head_outputs_are_changed, nodes_are
from edgewise.graphs import Graph, Intervals, empty, hubs, window
from edgewise.graphs.graph import select_edges
from edgewise.interop.huggingface.masks import block_diagonal, place
from edgewise.models.longformer import attend_from_hubs, token_nodes

LOCAL, GLOBAL, PADDING = 0, 1, 2
"""Kinds of tokens."""


class TokenGraphs(NamedTuple):
    """Graphs of one text, if all texts are alike, or of the concatenated texts of a batch.

    ``local`` leads to all tokens, ``of_hubs`` to the global tokens, whose indices are ``hubs``.
    """

    is_shared: bool
    local: Graph
    of_hubs: Graph
    hubs: Tensor


class WindowAttention:
    """Replacement of the forward pass; the weights and their names are those of the module."""

    def forward(  # noqa: PLR0917 - the signature of transformers
        self: Any,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        is_index_masked: Tensor | None = None,
        is_index_global_attn: Tensor | None = None,
        is_global_attn: bool | None = None,
        output_attentions: bool = False,
    ) -> tuple[Tensor, ...]:
        """Return the output ``[B, T, width]``. Weights are those of the original forward pass."""
        if output_attentions:
            original: tuple[Tensor, ...] = super().forward(  # type: ignore[misc]
                hidden_states,
                attention_mask,
                is_index_masked,
                is_index_global_attn,
                is_global_attn,
                output_attentions,
            )
            return original
        assert is_index_masked is not None
        assert is_index_global_attn is not None
        by_head = (
            is_plain(self.key_global, nn.Linear)
            and is_plain(self.value_global, nn.Linear)
            and not head_outputs_are_changed()
        )
        graphs = token_graphs(
            _bytes_of(is_index_masked, is_index_global_attn),
            len(hidden_states),
            self.one_sided_attn_window_size,
            heads=self.num_heads if by_head else 1,
            width=self.embed_dim,
            device=hidden_states.device,
        )
        x = hidden_states if graphs.is_shared else hidden_states.flatten(0, 1)
        size = self.num_heads, self.head_dim
        dropout = self.dropout if self.training else 0.0
        maps = self.query, self.key, self.value
        query, key, value = (linear(x).unflatten(-1, size) for linear in maps)
        with nodes_are(lambda: token_nodes(x, graphs.hubs)):
            out = attend(query, key, value, graphs.local, dropout=dropout, layout="NHD").flatten(-2)
        if len(graphs.hubs):
            query = self.query_global(x.index_select(-2, graphs.hubs)).unflatten(-1, size)
            if by_head:
                # The softmax ignores this bias. A gradient of 0 keeps it from being an unused
                # parameter, which DistributedDataParallel refuses.
                query = query + 0 * self.key_global.bias.view(size)
            of_hubs = attend_from_hubs(
                x,
                query,
                self.key_global,
                self.value_global,
                hubs=graphs.hubs,
                graph=graphs.of_hubs,
                dropout=dropout,
            )
            out = out.index_copy(-2, graphs.hubs, of_hubs.to(out.dtype))
        return (out.view(hidden_states.shape),)


class EdgewiseLongformerSelfAttention(WindowAttention, LongformerSelfAttention):  # type: ignore[misc]
    """``LongformerSelfAttention`` on Edgewise."""


class EdgewiseLEDEncoderSelfAttention(WindowAttention, LEDEncoderSelfAttention):  # type: ignore[misc]
    """``LEDEncoderSelfAttention`` on Edgewise."""


def _bytes_of(is_padding: Tensor, is_global: Tensor) -> bytes:
    """Return the kinds of tokens, which identify the graphs of a batch."""
    kind = is_global.byte() * GLOBAL + is_padding.byte() * PADDING
    return bytes(kind.cpu().numpy().tobytes())


@lru_cache(maxsize=16)
def token_graphs(
    kinds: bytes, members: int, radius: int, *, heads: int, width: int, device: torch.device
) -> TokenGraphs:
    """Return the graphs of texts ``[B, T]``, with one byte per token for its kind.

    If texts have few global tokens for their ``width``, ``of_hubs`` has a target for each global
    token and each of ``heads``, which saves the projections of all tokens.
    """
    kind = torch.frombuffer(bytearray(kinds), dtype=torch.uint8).view(members, -1)
    is_shared = bool((kind == kind[:1]).all())
    rows = kind[:1] if is_shared else kind
    is_global = rows == GLOBAL
    per_hub = heads if int(is_global.sum(1).max()) * heads < width else 1
    local, of_hubs = zip(*(_graphs_of_text(row, radius, per_hub) for row in rows), strict=True)
    return TokenGraphs(
        is_shared,
        block_diagonal(local).to(device),
        block_diagonal(of_hubs).to(device),
        is_global.flatten().nonzero().flatten().to(device),
    )


def _graphs_of_text(kind: Tensor, radius: int, heads: int) -> tuple[Graph, Graph]:
    """Return the graph of all tokens of a text, and that of its global tokens."""
    count = len(kind)
    tokens = (kind != PADDING).nonzero().flatten()
    if not len(tokens):
        return empty().bind(count), empty().bind(0, count)
    first, stop = int(tokens[0]), int(tokens[-1]) + 1
    global_tokens = (kind == GLOBAL).nonzero().flatten()
    pattern = window(radius) | hubs((global_tokens - first).tolist(), reads=False)
    local = place(pattern.bind(stop - first), count, count, first, first)
    targets = len(global_tokens) * heads
    start, end = torch.tensor([[first], [stop]]).expand(2, targets).contiguous()
    of_hubs: Graph = Intervals(start, end, count)
    if len(tokens) < stop - first:
        is_token = kind != PADDING
        local = select_edges(local, is_token[local.source] & is_token[local.target])
        of_hubs = select_edges(of_hubs, is_token[of_hubs.source])
    return local, of_hubs
