"""Key-value cache: what a decoder remembers between two steps of generation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

KeyValue = tuple[Tensor, Tensor]


class Cache:
    """Keys and values ``[B, N, H, D]``, kept for each attention layer.

    With them a step of decoding is attention from the new targets alone, on the same pattern. Pass
    one cache to every step: ``model(ids[:, :9], cache=cache)``, then ``model(ids[:, 9:],
    cache=cache)``. It is for inference; nothing is forgotten before the cache is dropped.

    Attributes:
        length: how many nodes have been read so far.
    """

    def __init__(self) -> None:
        self.length = 0
        self._kept: dict[nn.Module, tuple[Tensor, ...]] = {}

    def extended(self, layer: nn.Module, new: KeyValue) -> KeyValue:
        """What the layer has kept, with the keys and values of new nodes after them."""
        if layer in self._kept:
            key, value = self._kept[layer]
            new = torch.cat([key, new[0]], dim=-3), torch.cat([value, new[1]], dim=-3)
        self._kept[layer] = new
        return new

    def state(self, layer: nn.Module) -> tuple[Tensor, ...] | None:
        """What a recurrent layer kept last, ``[B, ...]`` each."""
        return self._kept.get(layer)

    def keep_state(self, layer: nn.Module, state: tuple[Tensor, ...]) -> None:
        """Replace what a recurrent layer has kept."""
        self._kept[layer] = state

    def once(self, layer: nn.Module, make: Callable[[], KeyValue]) -> KeyValue:
        """What the layer has kept, made at the first call: cross-attention reads one memory."""
        if layer not in self._kept:
            self._kept[layer] = make()
        key, value = self._kept[layer]
        return key, value

    def select(self, rows: Tensor) -> None:
        """Keep these members of the batch, in this order: beams that go on, some of them twice."""
        for layer, kept in self._kept.items():
            self._kept[layer] = tuple(part.index_select(0, rows) for part in kept)
