"""Contexts for creating cached tensors, independent of PyTorch's modes and CUDA streams."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from edgewise.torch_internals import mark_constant, modes_are_active, real_tensors

F = TypeVar("F", bound=Callable[..., Any])
AUTOCASTS = ("cpu", "cuda")
CPU = torch.device("cpu")
OBJECTS_ARE_CONSTANTS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)
"""Whether the installed PyTorch, while tracing, accepts constant functions of arbitrary objects."""


def disable_modes() -> AbstractContextManager[object]:
    """Return a context that disables all modes of PyTorch; new tensors are on the CPU by default.

    Tensors that a graph, model or encoding caches are used by later calls in other modes, so they
    must be ordinary tensors. A tensor created under ``torch.inference_mode()`` cannot be saved for
    a backward pass. A tensor created under ``torch.device("meta")``, in a ``FakeTensorMode`` or
    while ``torch.export`` traces has no data. A tensor created in a ``torch.func`` transform is
    invalid afterwards, and ``torch.autocast`` would round it.
    """
    return persist_on(CPU)


def persist_on(device: torch.device) -> AbstractContextManager[object]:
    """Return the context of :func:`disable_modes` for tensors cached on this device.

    Leaving the context waits for the GPU, because the cached tensor may be used on another stream.

    Raises:
        RuntimeError: a CUDA graph is being captured, during which waiting is not allowed.
    """
    if device.type == "cuda":
        return _seen_by_all_streams(device)
    # When the compiled code runs, its tensors are ordinary ones.
    if torch.compiler.is_dynamo_compiling():
        return nullcontext()
    inside = torch.is_inference_mode_enabled() or modes_are_active()
    # If no mode is active, no_grad suffices, and is much faster.
    return _outside() if inside else torch.no_grad()


@contextmanager
def _seen_by_all_streams(device: torch.device) -> Iterator[None]:
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "a graph is used for the first time while a CUDA graph is captured, and sorting its "
            "edges would wait for the device; run the step once before the capture"
        )
    with disable_modes():
        yield
    if not torch.compiler.is_dynamo_compiling():
        torch.cuda.current_stream(device).synchronize()


def detach_from_inference(tensor: Tensor) -> Tensor:
    """Return a tensor that autograd can save; an inference tensor is copied."""
    if torch.compiler.is_dynamo_compiling() or not tensor.is_inference():
        return tensor
    with torch.inference_mode(False), torch.no_grad():
        return tensor.clone()


def while_tracing(function: F) -> F:
    """Decorate a function to be called while ``torch.compile`` traces; its result is a constant.

    The function receives the real first argument, not a traced one, and the code is compiled again
    for another object. It cannot be used for an object that the compiled code creates.
    """
    if OBJECTS_ARE_CONSTANTS:
        mark_constant(function)
        return function

    # Older versions accept only numbers as arguments, and recompile if the ``id`` changes.
    def by_address(address: int, *more: Any) -> Any:
        return function(ctypes.cast(address, ctypes.py_object).value, *more)

    mark_constant(by_address)

    def by_identity(given: Any, *more: Any) -> Any:
        return by_address(id(given), *more)

    return cast(F, by_identity)


@contextmanager
def _outside() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(real_tensors())
        stack.enter_context(torch.device("cpu"))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        for device in AUTOCASTS:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
