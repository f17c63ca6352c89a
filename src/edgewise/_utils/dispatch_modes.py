"""Contexts in which to create cached tensors, which must be valid in all modes and CUDA streams.

Modes are states of PyTorch such as ``torch.inference_mode()`` and ``torch.autocast``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from edgewise._utils.torch_internals import mark_constant, modes_are_active, real_tensors

F = TypeVar("F", bound=Callable[..., Any])
AUTOCASTS = ("cpu", "cuda")
CPU = torch.device("cpu")
OBJECTS_ARE_CONSTANTS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)
"""Whether functions that ``torch.compile`` calls while tracing may have any object as argument."""


def disable_modes(device: torch.device = CPU) -> AbstractContextManager[object]:
    """Return a context without modes of PyTorch, for creating tensors that later calls use, too.

    A tensor created under ``torch.inference_mode()`` cannot be saved for a backward pass. One
    created under ``torch.device("meta")`` or while ``torch.export`` traces has no data. One created
    in a ``torch.func`` transform is invalid after it, and autocast may round to 16 bits.

    On a GPU, leaving the context waits until the tensors are computed, because another CUDA stream
    may use them; RuntimeError if a CUDA graph is being captured.
    """
    if device.type == "cuda":
        return _seen_by_all_streams(device)
    # When the compiled code runs, its tensors are ordinary ones.
    if torch.compiler.is_dynamo_compiling():
        return nullcontext()
    inside = torch.is_inference_mode_enabled() or modes_are_active()
    # If no mode is active, no_grad suffices, and takes 5 µs instead of 56 for each cached tensor.
    return _outside() if inside else torch.no_grad()


@contextmanager
def _seen_by_all_streams(device: torch.device) -> Iterator[None]:
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "an attention graph is used for the first time while a CUDA graph is captured; sorting "
            "its edges would wait for the GPU, which is not allowed then. Remedy: run the captured "
            "code once before the capture"
        )
    with disable_modes():
        yield
    if not torch.compiler.is_dynamo_compiling():
        torch.cuda.current_stream(device).synchronize()


def detach_from_inference(tensor: Tensor) -> Tensor:
    """Return a tensor that autograd can save: a copy if it was made in inference mode."""
    if torch.compiler.is_dynamo_compiling() or not tensor.is_inference():
        return tensor
    with torch.inference_mode(False), torch.no_grad():
        return tensor.clone()


def while_tracing(function: F) -> F:
    """Decorate a function that ``torch.compile`` is to call while tracing, instead of tracing it.

    The result is a constant in the compiled code, which is compiled again for another object as
    first argument. That argument must not be created by the compiled code itself.
    """
    if OBJECTS_ARE_CONSTANTS:
        mark_constant(function)
        return function

    # Older PyTorch accepts only numbers as arguments, and compiles again if the ``id`` changes.
    def by_address(address: int, *args: Any) -> Any:
        return function(ctypes.cast(address, ctypes.py_object).value, *args)

    mark_constant(by_address)

    def by_identity(traced: Any, *args: Any) -> Any:
        return by_address(id(traced), *args)

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
