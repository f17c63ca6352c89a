"""Contexts in which cached tensors are made, independent of PyTorch's modes and CUDA streams."""

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
"""Whether this PyTorch accepts functions of objects as constants while it traces."""


def disable_modes() -> AbstractContextManager[object]:
    """Return a context that leaves all modes of PyTorch; new tensors are on the CPU by default.

    Later calls in other modes use the tensors that a graph, model or encoding caches. A tensor made
    under ``torch.inference_mode()`` cannot be saved for a backward pass. One made under
    ``torch.device("meta")``, in a ``FakeTensorMode`` or while ``torch.export`` traces has no data.
    One made in a ``torch.func`` transform is invalid after it, and ``torch.autocast`` rounds.
    """
    return persist_on(CPU)


def persist_on(device: torch.device) -> AbstractContextManager[object]:
    """Return the context of :func:`disable_modes` for tensors cached on this device.

    Leaving the context waits for a GPU, as the next user may run on another stream.

    Raises:
        RuntimeError: a CUDA graph is being captured, which cannot wait.
    """
    if device.type == "cuda":
        return _seen_by_all_streams(device)
    if torch.compiler.is_dynamo_compiling():  # Tensors are real when the compiled code runs.
        return nullcontext()
    inside = torch.is_inference_mode_enabled() or modes_are_active()
    # no_grad is much faster, and suffices if no mode is active.
    return _outside() if inside else torch.no_grad()


@contextmanager
def _seen_by_all_streams(device: torch.device) -> Iterator[None]:
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "a graph is used for the first time while a CUDA graph is captured: its edges are "
            "sorted then, which waits for the device; run the step once before it is captured"
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
    """Let ``torch.compile`` call a function while it traces, and treat the result as a constant.

    The function receives its first argument as it is; the code is compiled again for another
    object. An object that compiled code creates itself has no attributes yet.
    """
    if OBJECTS_ARE_CONSTANTS:
        mark_constant(function)
        return function

    # Older versions accept plain numbers only, and guard the identity of an object by ``id``.
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
