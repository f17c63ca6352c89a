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

    Pass the same cache to all decoding steps: ``model(ids[:, :9], cache=cache)``, then
    ``model(ids[:, 9:], cache=cache)``. In most attention layers, also those with a window graph,
    the cache grows with the text. ``adaptive_span`` drops nodes beyond its learned spans (with the
    graph ``causal()``); ``performer``, ``transformer_xl`` and recurrent networks need bounded
    memory.

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
        self._stored: dict[nn.Module, tuple[Tensor, ...]] = {}
        # Buffers with free space; the tensors of _stored are views of their first entries.
        self._buffers: dict[nn.Module, tuple[Tensor, ...]] = {}
        self._steps: dict[int, Cache] = {}

    def extended(self, layer: nn.Module, new: KeyValue) -> KeyValue:
        """Append keys and values of new nodes to those of the layer, and return all of them.

        Buffers have room for twice the length. With gradients enabled, tensors are concatenated
        instead, because autograd may have saved the buffer.
        """
        stored = self._stored.get(layer)
        if stored is not None:
            self._check_members(stored[0], new[0])
            length = stored[0].shape[-3] + new[0].shape[-3]
            if torch.is_grad_enabled() or not all(map(_alike, stored, new)):
                self._buffers.pop(layer, None)
                key, value = (torch.cat(pair, -3) for pair in zip(stored, new, strict=True))
            else:
                buffers = self._buffers.get(layer)
                if buffers is None or not _has_room(buffers[0], length):
                    buffers = self._buffers[layer] = tuple(
                        _with_room(tensor, length) for tensor in stored
                    )
                for tensor, added in zip(buffers, new, strict=True):
                    tensor[..., length - added.shape[-3] : length, :, :] = added
                key, value = (tensor.narrow(-3, 0, length) for tensor in buffers)
            new = key, value
        self._stored[layer] = new
        return new

    def of_step(self, number: int) -> Cache:
        """Return the cache for step ``number`` of a model that applies a layer repeatedly."""
        step = self._steps.setdefault(number, Cache())
        step.length = self.length
        return step

    def forget(self, layer: nn.Module, reach: int) -> None:
        """Drop the nodes of a layer before the last ``reach``, once there are twice as many."""
        stored = self._stored.get(layer)
        if stored is not None and stored[0].shape[-3] > 2 * reach:
            self._buffers.pop(layer, None)
            start = stored[0].shape[-3] - reach
            self._stored[layer] = tuple(
                tensor.narrow(-3, start, reach).clone() for tensor in stored
            )

    @staticmethod
    def _check_members(stored: Tensor, new: Tensor) -> None:
        if stored.shape[:-3] != new.shape[:-3]:
            raise ArgumentError(
                "cache",
                expected=f"a batch of shape {list(stored.shape[:-3])}, as in the previous calls "
                "with this cache",
                got=f"a batch of shape {list(new.shape[:-3])}",
                remedy="create a new Cache() for other texts, or select members of the batch with "
                "select()",
            )

    def state(self, layer: nn.Module) -> tuple[Tensor, ...] | None:
        """Return the stored state of a recurrent layer, tensors ``[B, ...]``; ``None`` at first."""
        return self._stored.get(layer)

    def keep_state(self, layer: nn.Module, state: tuple[Tensor, ...]) -> None:
        """Replace the state of a recurrent layer."""
        self._stored[layer] = state

    def detach(self) -> None:
        """Detach all stored tensors from the autograd graph."""
        self._buffers.clear()
        for layer, stored in self._stored.items():
            self._stored[layer] = tuple(tensor.detach() for tensor in stored)
        for step in self._steps.values():
            step.detach()

    def state_dict(self, model: nn.Module) -> dict[str, Any]:
        """Return the stored tensors by layer name, for example to resume in another process."""
        names = {module: name for name, module in model.named_modules()}
        stored = {names[layer]: list(tensors) for layer, tensors in self._stored.items()}
        steps = {number: step.state_dict(model) for number, step in self._steps.items()}
        return {"length": self.length, "kept": stored, "steps": steps}

    def load_state_dict(self, model: nn.Module, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`state_dict` for a model with the same layer names."""
        self.length = state["length"]
        self._buffers.clear()
        # Checkpoints are loaded on the CPU, so the state is moved to the model's device.
        device = next(model.parameters()).device
        stored = state["kept"].items()
        self._stored = {
            model.get_submodule(name): tuple(tensor.to(device) for tensor in tensors)
            for name, tensors in stored
        }
        for number, of_step in state.get("steps", {}).items():
            self.of_step(number).load_state_dict(model, of_step)

    def once(self, layer: nn.Module, make: Callable[[], KeyValue]) -> KeyValue:
        """Return key and value of cross-attention; the first call for a layer calls ``make()``."""
        if layer not in self._stored:
            self._stored[layer] = make()
        key, value = self._stored[layer]
        return key, value

    def select(self, rows: Tensor) -> None:
        """Keep the sequences with the indices ``rows``; an index may repeat, as in beam search."""
        self._buffers.clear()
        for layer, stored in self._stored.items():
            self._stored[layer] = tuple(tensor.index_select(0, rows) for tensor in stored)
        for step in self._steps.values():
            step.select(rows)


def _alike(stored: Tensor, new: Tensor) -> bool:
    """Return whether two tensors have equal dtype, device and shape, except the number of nodes."""
    same_type = stored.dtype == new.dtype and stored.device == new.device
    same_members = stored.shape[:-3] == new.shape[:-3]
    return same_type and same_members and stored.shape[-2:] == new.shape[-2:]


def _has_room(buffer: Tensor, length: int) -> bool:
    """Return whether ``length`` nodes fit into the buffer and the buffer may be written to."""
    lost = buffer.is_inference() and not torch.is_inference_mode_enabled()
    return length <= buffer.shape[-3] and not lost


def _with_room(stored: Tensor, length: int) -> Tensor:
    """Copy a tensor ``[B, N, H, D]`` to the start of a buffer for ``2 * length`` nodes."""
    buffer = stored.new_empty(*stored.shape[:-3], 2 * length, *stored.shape[-2:])
    buffer.narrow(-3, 0, stored.shape[-3]).copy_(stored)
    return buffer
