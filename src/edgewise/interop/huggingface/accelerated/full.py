"""Full attention with a cache: BigBird's, and that of LED's decoder."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import EncoderDecoderCache
from transformers.models.big_bird.modeling_big_bird import BigBirdSelfAttention
from transformers.models.led.modeling_led import LEDDecoderAttention

from edgewise.interop.huggingface.attention import attention
from edgewise.interop.huggingface.masks import GraphMask

Mask = GraphMask | Tensor | None
FORMER_NAME = "past_key_values"  # Of the argument ``cache``, before transformers 5.17 or so.


class EdgewiseBigBirdSelfAttention(BigBirdSelfAttention):  # type: ignore[misc]
    """``BigBirdSelfAttention`` on Edgewise."""

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Mask = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Mask = None,
        cache: Any = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output ``[B, T, width]``, and the weights if the model collects them."""
        cache = options.get(FORMER_NAME) if cache is None else cache
        is_cross = encoder_hidden_states is not None
        width = self.attention_head_size
        query = _by_head(self.query(hidden_states), width)
        maps = self.key, self.value
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        key, value = _keys_and_values(
            source, *maps, width, cache, is_cross=is_cross, layer=self.layer_idx
        )
        out, weights = attention(
            self,
            query,
            key,
            value,
            encoder_attention_mask if is_cross else attention_mask,
            dropout=self.dropout.p if self.training else 0.0,
            is_causal=False,
        )
        return out.flatten(-2), weights


class EdgewiseLEDDecoderAttention(LEDDecoderAttention):  # type: ignore[misc]
    """``LEDDecoderAttention`` on Edgewise."""

    def forward(
        self,
        hidden_states: Tensor,
        key_value_states: Tensor | None = None,
        cache: Any = None,
        attention_mask: Mask = None,
        output_attentions: bool = False,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None, Any]:
        """Return the output ``[B, T, width]``, the weights ``[B, H, T, S]`` or None, the cache."""
        cache = options.get(FORMER_NAME) if cache is None else cache
        is_cross = key_value_states is not None
        query = _by_head(self.q_proj(hidden_states), self.head_dim)
        maps = self.k_proj, self.v_proj
        source = hidden_states if key_value_states is None else key_value_states
        key, value = _keys_and_values(
            source, *maps, self.head_dim, cache, is_cross=is_cross, layer=self.layer_idx
        )
        out, weights = attention(
            self,
            query,
            key,
            value,
            attention_mask,
            dropout=self.dropout if self.training else 0.0,
            is_causal=False,
            output_attentions=bool(output_attentions),
        )
        projected: Tensor = self.out_proj(out.flatten(-2))
        return projected, weights, cache


def _by_head(x: Tensor, width: int) -> Tensor:
    """Reshape ``[B, T, H * D]`` to ``[B, H, T, D]``."""
    by_head: Tensor = x.unflatten(-1, (-1, width)).transpose(1, 2)
    return by_head


def _keys_and_values(
    source: Tensor,
    key_map: nn.Module,
    value_map: nn.Module,
    width: int,
    cache: Any,
    *,
    is_cross: bool,
    layer: int,
) -> tuple[Tensor, Tensor]:
    """Return keys and values ``[B, H, S, D]`` of the source, and of earlier tokens in the cache."""
    layers: Any
    if isinstance(cache, EncoderDecoderCache):
        is_cached = is_cross and cache.is_updated.get(layer)
        layers = cache.cross_attention_cache if is_cross else cache.self_attention_cache
    else:
        is_cached = is_cross and cache is not None and cache.get_seq_length(layer) > 0
        layers = cache
    if is_cached:
        return layers.layers[layer].keys, layers.layers[layer].values
    key, value = (_by_head(linear(source), width) for linear in (key_map, value_map))
    if layers is not None:
        key, value = layers.update(key, value, layer)
    if is_cross and isinstance(cache, EncoderDecoderCache):
        cache.is_updated[layer] = True
    return key, value
