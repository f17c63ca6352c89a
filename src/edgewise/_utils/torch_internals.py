"""Private functions of PyTorch, which no other module uses, each with a fallback.

If a version of PyTorch lacks a name, the fallback is a public function or the safe answer, with
which calls are slower but have the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import Parameter

PLAIN = (Tensor, Parameter)
"""Types of ordinary tensors; other types are subclasses, which may wrap a tensor."""


def modes_are_active() -> bool:
    """Return whether a function mode, dispatch mode, functorch transform or autocast is active."""
    try:
        return bool(
            torch._C._len_torch_function_stack()
            or torch._C._len_torch_dispatch_stack()
            or torch._ops._len_torch_dispatch_stack_pre_dispatch()
            or torch._C._functorch.peek_interpreter_stack() is not None
            or torch._C._is_any_autocast_enabled()
        )
    except AttributeError:
        return True


def is_tracing(tensors: Iterable[Tensor] = ()) -> bool:
    """Return whether a compiler, tracer, dispatch mode or subclass must see the operations."""
    if torch.compiler.is_compiling():
        return True
    for x in tensors:  # A loop is faster than any() with a generator.
        if type(x) not in PLAIN:
            return True
    try:
        return torch._C._len_torch_dispatch_stack() > 0 or torch._C._get_tracing_state() is not None
    except AttributeError:
        return True


def has_values(x: Tensor) -> bool:
    """Return whether a tensor has numbers to check: not on "meta", and not while code is traced."""
    return not (x.is_meta or is_tracing((x,)))


def in_functorch_transform() -> bool:
    """Return whether ``torch.func`` or forward-mode differentiation is active."""
    if torch.compiler.is_compiling():
        return False
    try:
        functorch = torch._C._functorch.peek_interpreter_stack() is not None
        return functorch or forward_ad._current_level >= 0
    except AttributeError:
        return True


@contextmanager
def real_tensors() -> Iterator[None]:
    """Disable functorch transforms and dispatch modes, so that new tensors have storage and data.

    The fallback disables nothing, and raises RuntimeError if new tensors have no data.
    """
    try:
        from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
        from torch.utils._python_dispatch import _disable_current_modes
    except ImportError:
        if not _makes_plain_tensors():
            raise RuntimeError(
                "Edgewise cannot leave the active torch.func transform or dispatch mode in PyTorch "
                f"{torch.__version__}. Remedy: use the graph once before entering the transform or "
                "mode"
            ) from None
        yield
        return
    with ExitStack() as stack:
        # Otherwise torch.export records changes of the gradient mode, and cannot load its files.
        if hasattr(torch._C, "DisableTorchFunction"):
            stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(temporarily_clear_interpreter_stack())
        stack.enter_context(_disable_current_modes())
        yield


def _makes_plain_tensors() -> bool:
    """Return whether new tensors are ordinary ones, not of a subclass nor wrapped."""
    probe = torch.zeros(1, device="cpu") + 1
    return type(probe) is Tensor and torch.func.debug_unwrap(probe) is probe


def mark_constant(function: Callable[..., Any]) -> None:
    """Make ``torch.compile`` call a function while tracing; its result is then a constant."""
    # torch.compiler.assume_constant_result does the same, but imports the compiler in 2 seconds.
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]


def single_level_apply(kind: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return the ``apply`` of an autograd function, without its test for ``torch.func``."""
    # The test takes 4 µs of the 90 of a small attention call.
    if not hasattr(torch.autograd.function, "_SingleLevelFunction"):
        return kind.apply
    apply: Callable[..., Any] = super(torch.autograd.Function, kind).apply  # type: ignore[misc]
    return apply


def is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Return whether calling a module gives the formula of ``kind``: no subclass, wrapper or hook.

    Pruning and spectral norm are hooks; parametrisations are subclasses.
    """
    try:
        return type(module) is kind and not (
            module._forward_pre_hooks
            or module._forward_hooks
            or module._backward_pre_hooks
            or module._backward_hooks
            or "forward" in vars(module)
        )
    except AttributeError:
        return False


def version_of(tensor: Tensor) -> object:
    """Return a value that changes whenever the tensor is changed in place.

    For inference tensors, which have no version counter, each call returns a new object.
    """
    try:
        return object() if tensor.is_inference() else tensor._version
    except AttributeError:
        return object()
