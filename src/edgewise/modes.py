"""What is kept is made outside of PyTorch's modes and streams, whoever asks for it first."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

F = TypeVar("F", bound=Callable[..., Any])
AUTOCASTS = ("cpu", "cuda")
CPU = torch.device("cpu")
OBJECTS_ARE_CONSTANTS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 12)
"""Whether ``assume_constant_result`` of this PyTorch accepts functions of objects."""


def outside_modes() -> AbstractContextManager[object]:
    """Within this context tensors are real ones, on the CPU unless a device is named.

    A graph keeps what it computes, and others meet it later: a tensor that was made under
    ``torch.inference_mode()`` cannot be saved for a backward pass, one that was made under
    ``torch.device("meta")``, in a FakeTensorMode or while ``torch.export`` traces has no numbers,
    one of ``torch.func`` belongs to a transform that is over, and ``torch.autocast`` rounds.
    """
    return kept_on(CPU)


def kept_on(device: torch.device) -> AbstractContextManager[object]:
    """:func:`outside_modes`, for what is kept of a graph on this device.

    Whoever meets it next may do so on another stream, which waits for nothing that it does not
    know of: what is made is there when this context ends.

    Raises:
        RuntimeError: a CUDA graph is being captured, which cannot wait.

    """
    if device.type == "cuda":
        return _seen_by_all_streams(device)
    if torch.compiler.is_dynamo_compiling():  # its tensors are real when the code runs
        return nullcontext()
    inside = (
        torch.is_inference_mode_enabled()
        or torch._C._len_torch_function_stack()
        or torch._C._len_torch_dispatch_stack()
        or torch._ops._len_torch_dispatch_stack_pre_dispatch()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._is_any_autocast_enabled()
    )
    return _outside() if inside else torch.no_grad()  # to leave none takes far less time


@contextmanager
def _seen_by_all_streams(device: torch.device) -> Iterator[None]:
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "a graph is used for the first time while a CUDA graph is captured: its edges are "
            "sorted then, which waits for the device; run the step once before it is captured"
        )
    with outside_modes():
        yield
    if not torch.compiler.is_dynamo_compiling():
        torch.cuda.current_stream(device).synchronize()


def lasting(tensor: Tensor) -> Tensor:
    """The tensor as one that training can save: a copy, if it is of ``torch.inference_mode()``."""
    if torch.compiler.is_dynamo_compiling() or not tensor.is_inference():
        return tensor
    with torch.inference_mode(False), torch.no_grad():
        return tensor.clone()


def while_tracing(function: F) -> F:
    """Let ``torch.compile`` call a function while it traces, and treat the result as a constant.

    The function receives its first argument as it is; the code is compiled again for another
    object. An object that compiled code creates itself has no attributes yet.

    This is ``torch.compiler.assume_constant_result``, which would import the compiler, and add 2 s
    to ``import edgewise``.
    """
    if OBJECTS_ARE_CONSTANTS:
        function._dynamo_marked_constant = True  # type: ignore[attr-defined]
        return function

    # Older versions accept plain numbers only, and guard the identity of an object by ``id``.
    def by_address(address: int, *more: Any) -> Any:
        return function(ctypes.cast(address, ctypes.py_object).value, *more)

    by_address._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def by_identity(given: Any, *more: Any) -> Any:
        return by_address(id(given), *more)

    return cast(F, by_identity)


@contextmanager
def _outside() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(temporarily_clear_interpreter_stack())
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch.device("cpu"))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.no_grad())
        for device in AUTOCASTS:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield
