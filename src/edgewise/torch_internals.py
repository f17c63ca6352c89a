"""Private functions of PyTorch, each with a public fallback.

No other module uses private names of PyTorch. If a version of PyTorch lacks such a name, a fallback
replaces it. Some fallbacks return a conservative value, with which calls are slower but have the
same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

PLAIN = (Tensor, Parameter)
"""Types of ordinary tensors, which are not subclasses that wrap other tensors."""


def modes_are_active() -> bool:
    """Return whether a function mode, dispatch mode, functorch transform or autocast is active.

    The fallback is True: disabling modes that are not active changes nothing.
    """
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
    """Return whether a compiler, tracer, dispatch mode or tensor subclass must see all operations.

    The fallback is True: calls then go through PyTorch's dispatcher, where all of them are visible.
    """
    if torch.compiler.is_compiling():
        return True
    for x in tensors:  # A loop is faster than any() with a generator.
        if type(x) not in PLAIN:
            return True
    try:
        return torch._C._len_torch_dispatch_stack() > 0 or torch._C._get_tracing_state() is not None
    except AttributeError:
        return True


def in_functorch_transform() -> bool:
    """Return whether ``torch.func`` or forward-mode differentiation is active.

    The fallback is True: kernels that do not support these two are then not used.
    """
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

    The fallback disables nothing, and raises an error if new tensors are fake or wrapped.

    Raises:
        RuntimeError: this version of PyTorch lacks the private functions, and a mode is active.
    """
    try:
        from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
        from torch.utils._python_dispatch import _disable_current_modes
    except ImportError:
        if not _makes_plain_tensors():
            raise RuntimeError(
                "Edgewise cannot leave the active torch.func transform or dispatch mode in PyTorch "
                f"{torch.__version__}; use the graph once before, outside of the transform or mode"
            ) from None
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(temporarily_clear_interpreter_stack())
        stack.enter_context(_disable_current_modes())
        yield


def _makes_plain_tensors() -> bool:
    """Return whether a new tensor is neither of a subclass nor wrapped by a transform."""
    probe = torch.zeros(1, device="cpu") + 1
    return type(probe) is Tensor and torch.func.debug_unwrap(probe) is probe


def mark_constant(function: Callable[..., Any]) -> None:
    """Mark a function whose result is a constant of the code that ``torch.compile`` traces.

    ``torch.compiler.assume_constant_result`` sets the same attribute, but imports the compiler,
    which takes two seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]


def single_level_apply(kind: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return ``kind.apply`` without the slow handling of functorch transforms.

    The fallback is ``kind.apply``.
    """
    if not hasattr(torch.autograd.function, "_SingleLevelFunction"):
        return kind.apply
    apply: Callable[..., Any] = super(torch.autograd.Function, kind).apply  # type: ignore[misc]
    return apply


def version_of(tensor: Tensor) -> object:
    """Return a value that changes whenever the tensor is changed in place.

    Inference tensors have no version counter. For them, and as fallback, each call returns a new
    object, so that caches never hit.
    """
    try:
        return object() if tensor.is_inference() else tensor._version
    except AttributeError:
        return object()


def foreach_copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy each source into its target, in one call per device if possible."""
    try:
        copy = torch._foreach_copy_
    except AttributeError:
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)
        return
    copy(targets, sources)


def foreach_lerp(targets: list[Tensor], ends: list[Tensor], weight: float) -> None:
    """Apply ``target.lerp_(end, weight)`` to each target and its end, in one call if possible."""
    try:
        lerp = torch._foreach_lerp_
    except AttributeError:
        for target, end in zip(targets, ends, strict=True):
            target.lerp_(end, weight)
        return
    lerp(targets, ends, weight)
