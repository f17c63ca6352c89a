"""Key-value cache for step-by-step decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from edgewise._utils.errors import ArgumentError

KeyValue = tuple[Tensor, Tensor]


class Cache:
    """Keys and values ``[B, N, H, D]`` of earlier nodes, or another state, of each layer.

    With a cache, a decoding step computes attention only for the new tokens. Pass the same cache to
    all steps: ``model(ids[:, :9], cache=cache)``, then ``model(ids[:, 9:], cache=cache)``. A cache
    is meant for inference. In most attention layers, also those with a window graph, the cache
    grows with the text. The layers of ``adaptive_span`` drop nodes beyond their learned spans (with
    the graph ``causal()``). Layers that store a state, such as those of ``performer``,
    ``transformer_xl`` and recurrent networks, need a bounded amount of memory.

    Attributes:
        length: number of nodes read so far.

    Example:
        >>> import torch
        >>> from edgewise import layers, models
        >>> model, cache = models.gpt(1000).eval(), layers.Cache()
        >>> ids = torch.randint(1000, (1, 10))
        >>> first, rest = model(ids[:, :9], cache=cache), model(ids[:, 9:], cache=cache)
        >>> torch.allclose(rest, model(ids)[:, 9:], atol=1e-5)
        True
    """

    def __init__(self) -> None:
        self.length = 0
        self._kept: dict[nn.Module, tuple[Tensor, ...]] = {}
        # Buffers with free space; the tensors of _kept are views of their first entries.
        self._room: dict[nn.Module, tuple[Tensor, ...]] = {}
        self._steps: dict[int, Cache] = {}

    def extended(self, layer: nn.Module, new: KeyValue) -> KeyValue:
        """Append keys and values of new nodes to those of the layer, and return all of them.

        Buffers have room for twice the length, so most steps write only the new entries. With
        gradients enabled, tensors are concatenated instead, because autograd may have saved the
        buffer, and writing to it would change the saved values.
        """
        kept = self._kept.get(layer)
        if kept is not None:
            self._check_members(kept[0], new[0])
            length = kept[0].shape[-3] + new[0].shape[-3]
            if torch.is_grad_enabled() or not all(map(_alike, kept, new)):
                self._room.pop(layer, None)
                key, value = (torch.cat(pair, -3) for pair in zip(kept, new, strict=True))
            else:
                room = self._room.get(layer)
                if room is None or not _can_take(room[0], length):
                    room = self._room[layer] = tuple(_with_room(part, length) for part in kept)
                for part, added in zip(room, new, strict=True):
                    part[..., length - added.shape[-3] : length, :, :] = added
                key, value = (part.narrow(-3, 0, length) for part in room)
            new = key, value
        self._kept[layer] = new
        return new

    def of_step(self, number: int) -> Cache:
        """Return the cache for step ``number`` of a model that applies a layer repeatedly."""
        step = self._steps.setdefault(number, Cache())
        step.length = self.length
        return step

    def forget(self, layer: nn.Module, reach: int) -> None:
        """Drop the keys and values of a layer for all nodes except the last ``reach``.

        Dropping copies the remaining tensors, so it happens only if more than ``2 * reach`` nodes
        are stored.
        """
        kept = self._kept.get(layer)
        if kept is not None and kept[0].shape[-3] > 2 * reach:
            self._room.pop(layer, None)
            start = kept[0].shape[-3] - reach
            self._kept[layer] = tuple(part.narrow(-3, start, reach).clone() for part in kept)

    @staticmethod
    def _check_members(kept: Tensor, new: Tensor) -> None:
        if kept.shape[:-3] != new.shape[:-3]:
            raise ArgumentError(
                "cache",
                expected=f"a batch of shape {list(kept.shape[:-3])}, as in the previous calls with "
                "this cache",
                got=f"a batch of shape {list(new.shape[:-3])}",
                remedy="create a new Cache() for other texts, or select members of the batch with "
                "select()",
            )

    def state(self, layer: nn.Module) -> tuple[Tensor, ...] | None:
        """Return the stored state of a recurrent layer, tensors ``[B, ...]``; ``None`` at first."""
        return self._kept.get(layer)

    def keep_state(self, layer: nn.Module, state: tuple[Tensor, ...]) -> None:
        """Replace the state of a recurrent layer."""
        self._kept[layer] = state

    def detach(self) -> None:
        """Detach all stored tensors from the autograd graph."""
        self._room.clear()
        for layer, kept in self._kept.items():
            self._kept[layer] = tuple(part.detach() for part in kept)
        for step in self._steps.values():
            step.detach()

    def state_dict(self, model: nn.Module) -> dict[str, Any]:
        """Return the stored tensors by layer name, for example to resume in another process."""
        names = {module: name for name, module in model.named_modules()}
        kept = {names[layer]: list(parts) for layer, parts in self._kept.items()}
        steps = {number: step.state_dict(model) for number, step in self._steps.items()}
        return {"length": self.length, "kept": kept, "steps": steps}

    def load_state_dict(self, model: nn.Module, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`state_dict` for a model with the same layer names."""
        self.length = state["length"]
        self._room.clear()
        # Checkpoints are loaded on the CPU, so the state is moved to the model's device.
        device = next(model.parameters()).device
        kept = state["kept"].items()
        self._kept = {
            model.get_submodule(name): tuple(part.to(device) for part in parts)
            for name, parts in kept
        }
        for number, of_step in state.get("steps", {}).items():
            self.of_step(number).load_state_dict(model, of_step)

    def once(self, layer: nn.Module, make: Callable[[], KeyValue]) -> KeyValue:
        """Return key and value of cross-attention; the first call for a layer calls ``make()``."""
        if layer not in self._kept:
            self._kept[layer] = make()
        key, value = self._kept[layer]
        return key, value

    def select(self, rows: Tensor) -> None:
        """Keep the sequences with the indices ``rows``; an index may repeat, as in beam search."""
        self._room.clear()
        for layer, kept in self._kept.items():
            self._kept[layer] = tuple(part.index_select(0, rows) for part in kept)
        for step in self._steps.values():
            step.select(rows)


def _alike(kept: Tensor, new: Tensor) -> bool:
    """Return whether two tensors have equal dtype, device and shape, except the number of nodes."""
    same_type = kept.dtype == new.dtype and kept.device == new.device
    same_members = kept.shape[:-3] == new.shape[:-3]
    return same_type and same_members and kept.shape[-2:] == new.shape[-2:]


def _can_take(room: Tensor, length: int) -> bool:
    """Return whether ``length`` nodes fit into the buffer and the buffer may be written to."""
    lost = room.is_inference() and not torch.is_inference_mode_enabled()
    return length <= room.shape[-3] and not lost


def _with_room(kept: Tensor, length: int) -> Tensor:
    """Copy a tensor ``[B, N, H, D]`` to the start of a buffer for ``2 * length`` nodes."""
    room = kept.new_empty(*kept.shape[:-3], 2 * length, *kept.shape[-2:])
    room.narrow(-3, 0, kept.shape[-3]).copy_(kept)
    return room
