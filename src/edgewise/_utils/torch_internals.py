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
"""Types of ordinary tensors; other types are subclasses, which may wrap a tensor."""


def modes_are_active() -> bool:
    """Return whether a function mode, dispatch mode, functorch transform or autocast is active.

    The fallback is True, which is safe: disabling modes that are not active changes nothing.
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
    """Return whether operations must go through PyTorch's dispatcher, where they can be observed.

    A compiler, a tracer, a dispatch mode or a tensor subclass among ``tensors`` observes them. The
    fallback is True, which is safe but slower.
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

    The fallback is True; kernels that support neither of the two are then not used.
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

    The fallback disables nothing.

    Raises:
        RuntimeError: this version of PyTorch lacks the private functions, and new tensors have no
            data or are wrapped.
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
        stack.enter_context(temporarily_clear_interpreter_stack())
        stack.enter_context(_disable_current_modes())
        yield


def _makes_plain_tensors() -> bool:
    """Return whether new tensors are ordinary ones, not of a subclass nor wrapped."""
    probe = torch.zeros(1, device="cpu") + 1
    return type(probe) is Tensor and torch.func.debug_unwrap(probe) is probe


def mark_constant(function: Callable[..., Any]) -> None:
    """Make ``torch.compile`` call a function while it traces, and treat the result as a constant.

    ``torch.compiler.assume_constant_result`` sets the same attribute, but it imports the compiler,
    which takes two seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]


def single_level_apply(kind: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Return the ``apply`` of an autograd function, without its slow test for ``torch.func``.

    The fallback is ``kind.apply`` itself.
    """
    if not hasattr(torch.autograd.function, "_SingleLevelFunction"):
        return kind.apply
    apply: Callable[..., Any] = super(torch.autograd.Function, kind).apply  # type: ignore[misc]
    return apply


def version_of(tensor: Tensor) -> object:
    """Return a value that changes whenever the tensor is changed in place.

    Inference tensors have no version counter. For them, and as fallback, each call returns a new
    object, so that a cache that compares versions is never used.
    """
    try:
        return object() if tensor.is_inference() else tensor._version
    except AttributeError:
        return object()
